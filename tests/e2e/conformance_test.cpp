#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <string>

#include "tests/e2e/process.h"
#include "tests/e2e/programs.h"
#include "tests/support/expect.h"

// edgedraft-conformance against edgedraft-server.
namespace edgedraft::testing {
namespace {

class ConformanceTest : public ::testing::Test {
 protected:
  std::unique_ptr<Process> start(const Options& options) {
    return std::make_unique<Process>(joined({EDGEDRAFT_CONFORMANCE}, options),
                                     scratch_ / "conformance");
  }

  test::TemporaryDirectory scratch_;
};

TEST_F(ConformanceTest, OurServerPassesEveryCheck) {
  scratch_.write_secret("token", "right\n");
  const Server server(scratch_, {"--token-file", scratch_ / "token"});
  const auto suite = start(
      {server.address(), "--pin", server.pin(), "--token-file", scratch_ / "token", "--json"});
  const nlohmann::json report = output_of(*suite);
  EXPECT_EQ(report["passed"], true);
  EXPECT_GT(report["checks"].size(), 50u);
  for (const auto& check : report["checks"]) EXPECT_EQ(check["result"], "PASS") << check;
}

// A server without a token accepts any, which the check of wrong tokens reports.
TEST_F(ConformanceTest, FailedCheckIsNamedAndSetsStatus) {
  scratch_.write_secret("token", "any\n");
  const Server server(scratch_);
  const auto suite = start(
      {server.address(), "--pin", server.pin(), "--token-file", scratch_ / "token", "-R", "^w"});
  EXPECT_EQ(suite->wait(), 1) << suite->err();
  EXPECT_TRUE(contains(suite->out(), "PASS welcome: "));
  EXPECT_TRUE(contains(suite->out(), "FAIL wrong-token: "));
  EXPECT_TRUE(contains(suite->out(), "PASS wide-token: ")) << suite->out();
}

TEST_F(ConformanceTest, UnreachableServerSetsStatusOfItsOwn) {
  const auto suite = start({"127.0.0.1:1", "--pin", "sha256:" + std::string(64, '0')});
  EXPECT_EQ(suite->wait(), 2);
  EXPECT_EQ(suite->out(), "");
  EXPECT_TRUE(contains(suite->err(), "could not connect to 127.0.0.1:1")) << suite->err();
}

TEST_F(ConformanceTest, WrongUsageIsExplained) {
  const auto expect_refused = [&](const Options& options, const std::string& words) {
    const auto suite = start(options);
    EXPECT_EQ(suite->wait(), 2);
    EXPECT_TRUE(contains(suite->err(), words)) << suite->err();
  };
  expect_refused({}, "give HOST or HOST:PORT");
  expect_refused({"host:port"}, "HOST: ");
  expect_refused({"host", "-R", "("}, "-R '('");
  expect_refused({"host", "-R", "nonsense"}, "see --list");
}

TEST_F(ConformanceTest, ListsChecksWithoutServer) {
  const auto suite = start({"--list", "-R", "^drafts-late$"});
  EXPECT_EQ(suite->wait(), 0) << suite->err();
  EXPECT_EQ(suite->out(), "drafts-late: drafts for earlier positions do not change the answer\n");
}

}  // namespace
}  // namespace edgedraft::testing
