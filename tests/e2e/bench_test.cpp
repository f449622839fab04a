#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/e2e/process.h"

// What `edgedraft-bench` does not measure.
namespace edgedraft::testing {
namespace {

constexpr int kUsageError = 2;

class HeldOutAnswersTest : public ::testing::Test {
 protected:
  // An index of `text` on the demo's tokens.
  std::string index_of(const std::string& name, const std::string& text) {
    std::ofstream(scratch_ / (name + ".txt")) << text;
    const std::string index = scratch_ / (name + ".index");
    Process program({EDGEDRAFT_CLIENT, "index", "--model", demo_model("target"), "--public",
                     scratch_ / (name + ".txt"), "-o", index},
                    scratch_ / ("index-" + name));
    EXPECT_EQ(program.wait(), 0) << program.err();
    return index;
  }

  // Runs the bench on the prompt with this index and returns its exit status.
  int measure(const std::string& index) {
    bench_ = std::make_unique<Process>(
        std::vector<std::string>{EDGEDRAFT_BENCH, "acceptance", "--model", demo_model("target"),
                                 "--prompts", scratch_ / "prompts.jsonl", "--kinds", "retrieval",
                                 "--index", index, "--max-tokens", "4"},
        scratch_ / "bench");
    return bench_->wait();
  }

  void hold_out(const std::string& answer) {
    std::ofstream(scratch_ / "prompts.jsonl")
        << nlohmann::json{{"task", "story"}, {"prompt", "A hen."}, {"reference", answer}} << "\n";
  }

  test::TemporaryDirectory scratch_;
  std::unique_ptr<Process> bench_;
};

TEST_F(HeldOutAnswersTest, AnIndexThatHoldsOneIsRefused) {
  const std::string answer =
      "Once upon a time there was a little hen who lived in a big red barn. She liked to look at "
      "the sun, and one day she went to the pond to see if it was there, too. It was.";
  hold_out(answer);
  ASSERT_EQ(measure(index_of("other", "Tom had a dog. The dog was big, and it ran all day.")), 0)
      << bench_->err();
  EXPECT_EQ(measure(index_of("same", "He told a story. " + answer + " That was all.")),
            kUsageError);
  EXPECT_NE(bench_->err().find("same.index"), std::string::npos) << bench_->err();
  EXPECT_NE(bench_->err().find("prompt 1"), std::string::npos) << bench_->err();
}

TEST(BenchOptionsTest, NoNumberIsNoTime) {
  const test::TemporaryDirectory scratch;
  Process bench({EDGEDRAFT_BENCH, "engine", "--shape", "demo", "--widths", "1", "--seconds", "nan"},
                scratch / "bench");
  EXPECT_EQ(bench.wait(), kUsageError);
  EXPECT_NE(bench.err().find("--seconds: 'nan'"), std::string::npos) << bench.err();
}

}  // namespace
}  // namespace edgedraft::testing
