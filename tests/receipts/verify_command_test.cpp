#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <string>

#include "tests/e2e/process.h"
#include "tests/e2e/programs.h"
#include "tests/support/demo_prompts.h"
#include "tests/support/expect.h"

namespace edgedraft::testing {
namespace {

using nlohmann::json;

class VerifyCommandTest : public ::testing::Test {
 protected:
  // Exit status of `edgedraft verify`; its output is in out_ and err_.
  int verify(const std::string& file, const Options& options) {
    Process process(joined({EDGEDRAFT_CLIENT, "verify", file}, options), scratch_ / "verify");
    const int status = process.wait();
    out_ = process.out();
    err_ = process.err();
    return status;
  }

  test::TemporaryDirectory scratch_;
  Server server_{scratch_};
  std::string out_;
  std::string err_;
};

TEST_F(VerifyCommandTest, ConfirmsReceiptAtAnotherServerAndRefusesChangedOne) {
  const std::string file = scratch_ / "receipt.json";
  answer_from(server_, scratch_, demo_model("moa-tli0"),
              {"-p", kQuestion, "--temperature", "0.7", "--seed", "5", "--receipt", file});

  test::TemporaryDirectory elsewhere;
  const Server other(elsewhere);
  EXPECT_EQ(verify(file, joined(with_server(other), {"--signer", server_.pin()})), 0) << err_;
  EXPECT_TRUE(contains(out_, "signed by " + server_.pin()));
  EXPECT_TRUE(contains(out_, "yes: "));
  EXPECT_EQ(verify(file, {"--signature-only", "--signer", other.pin()}), 1);
  EXPECT_TRUE(contains(out_, "no: --signer is another key"));

  json receipt = json::parse(std::ifstream(file));
  receipt["sampling"]["seed"] = 6;
  EXPECT_EQ(verify(scratch_.write("changed.json", receipt.dump()), {"--signature-only"}), 1);
  EXPECT_TRUE(contains(out_, "no: the signature does not match"));
  EXPECT_EQ(verify(scratch_.write("other.json", "{}"), {"--signature-only"}), 5);
  EXPECT_TRUE(contains(err_, "not a receipt"));
}

TEST_F(VerifyCommandTest, PrivateAnswerHasNoReceipt) {
  const std::string file = scratch_ / "receipt.json";
  const auto client =
      start_client(scratch_, "private",
                   joined(with_server(server_), {"--bundle", demo_model("independent"), "-p",
                                                 "My name is <private>Ann</private>.", "--private",
                                                 "local", "--max-tokens", "8", "--receipt", file}));
  EXPECT_EQ(client->wait(), 5);
  EXPECT_TRUE(contains(client->err(), "--receipt: the server has not verified every token"));
  EXPECT_FALSE(std::filesystem::exists(file));
}

}  // namespace
}  // namespace edgedraft::testing
