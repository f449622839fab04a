#include "client/commands/commands.h"

#include <gtest/gtest.h>

#include <cstdio>
#include <string>

#include "tests/support/expect.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft::client {
namespace {

class PerplexityCommandTest : public ::testing::Test {
 protected:
  PerplexityCommandTest() {
    std::string text;
    for (int i = 0; i < 60; ++i) text += "The dog has a red ball. ";
    options_.model = EDGEDRAFT_MODELS "/target.gguf";
    options_.file = directory_.write("text.txt", text);
    options_.window = 64;
    options_.threads = 1;
  }

  void expect_error(const PerplexityOptions& options, Errc code, const std::string& named) {
    const auto done = run_perplexity(options);
    EXPECT_TRUE(fails_with(done, code, named)) << named;
  }

  double perplexity(const PerplexityOptions& options) {
    ::testing::internal::CaptureStdout();
    const auto done = run_perplexity(options);
    const std::string out = ::testing::internal::GetCapturedStdout();
    EXPECT_TRUE(done);
    double value = 0;
    EXPECT_EQ(std::sscanf(out.c_str(), "perplexity %lf +- ", &value), 1) << out;
    EXPECT_TRUE(contains(out, " tokens in windows of " + std::to_string(options.window)));
    return value;
  }

  test::TemporaryDirectory directory_;
  PerplexityOptions options_;
};

TEST_F(PerplexityCommandTest, RepetitiveTextHasLowerPerplexity) {
  const double repeating = perplexity(options_);
  EXPECT_GE(repeating, 1.0);
  std::string shuffled;
  for (int i = 0; i < 1500; ++i) shuffled += static_cast<char>('a' + i * i % 23);
  options_.file = directory_.write("shuffled.txt", shuffled);
  EXPECT_GT(perplexity(options_), 10 * repeating);
}

TEST_F(PerplexityCommandTest, OneTokenHasNoStandardError) {
  options_.file = directory_.write("one.txt", "dog");
  ::testing::internal::CaptureStdout();
  EXPECT_TRUE(run_perplexity(options_));
  const std::string out = ::testing::internal::GetCapturedStdout();
  EXPECT_TRUE(contains(out, " +- - over 1 tokens"));
}

TEST_F(PerplexityCommandTest, NamesInvalidOption) {
  const auto refuses = [&](auto change, const std::string& named, Errc code = Errc::usage) {
    PerplexityOptions changed = options_;
    change(changed);
    expect_error(changed, code, named);
  };
  const auto empty = directory_.write("short.txt", "");
  refuses([](auto& o) { o.model.clear(); }, "--model");
  refuses([](auto& o) { o.file.clear(); }, "-f FILE");
  for (const std::int64_t window : {-1, 1, 2, 1 << 30}) {
    refuses([&](auto& o) { o.window = window; }, "--window");
  }
  refuses([&](auto& o) { o.file = empty; }, "too short");
  for (const char* named : {"edgedraft-moa", "moa-tli0.gguf"}) {
    refuses([](auto& o) { o.model = EDGEDRAFT_MODELS "/moa-tli0.gguf"; }, named, Errc::unsupported);
  }
}

}  // namespace
}  // namespace edgedraft::client
