#include <gtest/gtest.h>

#include <fstream>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "tests/e2e/process.h"
#include "tests/e2e/programs.h"
#include "tests/support/expect.h"

// Measurements that `edgedraft-bench` refuses, and that its results can be compared.
namespace edgedraft::testing {
namespace {

constexpr int kUsageError = 2;

class HeldOutAnswersTest : public ::testing::Test {
 protected:
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

TEST_F(HeldOutAnswersTest, RefusesIndexWithHeldOutAnswer) {
  const std::string answer =
      "Once upon a time there was a little hen who lived in a big red barn. She liked to look at "
      "the sun, and one day she went to the pond to see if it was there, too. It was.";
  hold_out(answer);
  ASSERT_EQ(
      measure(index_of(scratch_, "other", "Tom had a dog. The dog was big, and it ran all day.")),
      0)
      << bench_->err();
  EXPECT_EQ(measure(index_of(scratch_, "same", "He told a story. " + answer + " That was all.")),
            kUsageError);
  EXPECT_TRUE(contains(bench_->err(), "same.index"));
  EXPECT_TRUE(contains(bench_->err(), "prompt 1"));
}

// Among them, answers too short to measure.
TEST(BenchOptionsTest, RefusesInvalidValues) {
  const test::TemporaryDirectory scratch;
  struct Refused {
    const char* command;
    const char* option;
    const char* value;
  };
  for (const auto& [command, option, value] : {Refused{"engine", "--seconds", "nan"},
                                               {"overlap", "--clients", "0"},
                                               {"overlap", "--tokens", "1"},
                                               {"drafters", "--max-tokens", "1"},
                                               {"server", "--max-tokens", "0"}}) {
    Process bench({EDGEDRAFT_BENCH, command, option, value}, scratch / "bench");
    EXPECT_EQ(bench.wait(), kUsageError) << command;
    EXPECT_TRUE(contains(bench.err(), std::string(option) + ": '" + value + "'")) << command;
  }
}

// A share of 1000 is out of reach, and any pass reaches a share of 0.000001.
TEST(BenchBaselineTest, EngineFailsBelowItsBaselineOnly) {
  const test::TemporaryDirectory scratch;
  const auto status_with = [&](const std::string& share) {
    const auto baseline = scratch.write(
        "baseline.json", R"([{"setting": {"model": "demo"}, "shares": {"1": )" + share + "}}]");
    Process bench({EDGEDRAFT_BENCH, "engine", "--shape", "demo", "--threads", "1", "--widths", "1",
                   "--prompt", "0", "--seconds", "0.001", "--baseline", baseline},
                  scratch / "bench");
    return bench.wait();
  };
  EXPECT_EQ(status_with("1000"), 1);
  EXPECT_EQ(status_with("0.000001"), 0);
}

// `engine` builds the same sizes itself.
TEST(BenchOptionsTest, WritesLoadableRandomModel) {
  const test::TemporaryDirectory scratch;
  const std::string file = scratch / "random.gguf";
  Process bench({EDGEDRAFT_BENCH, "model", "--shape", "demo", "--type", "q4_0", "-o", file},
                scratch / "bench");
  ASSERT_EQ(bench.wait(), 0) << bench.err();
  std::ofstream(scratch / "text") << "hen";
  Process tokens({EDGEDRAFT_CLIENT, "tokenize", "--model", file, "-f", scratch / "text"},
                 scratch / "tokens");
  EXPECT_EQ(tokens.wait(), 0) << tokens.err();
}

TEST(BenchPromptsTest, NamesLineOfInvalidPrompt) {
  const test::TemporaryDirectory scratch;
  std::ofstream(scratch / "prompts.jsonl")
      << "{\"task\": \"story\", \"prompt\": \"A hen.\", \"reference\": null}\n"
      << "{\"task\": \"story\", \"prompt\": \"A dog.\", \"reference\": 7}\n";
  Process bench({EDGEDRAFT_BENCH, "acceptance", "--model", demo_model("target"), "--prompts",
                 scratch / "prompts.jsonl", "--kinds", "ngram"},
                scratch / "bench");
  EXPECT_NE(bench.wait(), 0);
  EXPECT_TRUE(contains(bench.err(), "prompts.jsonl, line 2: \"reference\""));
}

class ShortAnswerTest : public ::testing::Test {
 protected:
  int measure(const std::vector<std::string>& more) {
    std::ofstream(scratch_ / "prompts.jsonl")
        << nlohmann::json{{"task", "story"}, {"prompt", "A hen."}} << "\n";
    std::vector<std::string> line{EDGEDRAFT_BENCH, "drafters",
                                  "--model",       demo_model("target"),
                                  "--bundle",      demo_model("moa-tli0"),
                                  "--prompts",     scratch_ / "prompts.jsonl",
                                  "--max-tokens",  "4",
                                  "--threads",     "1"};
    line.insert(line.end(), more.begin(), more.end());
    bench_ = std::make_unique<Process>(line, scratch_ / "bench");
    return bench_->wait();
  }

  test::TemporaryDirectory scratch_;
  std::unique_ptr<Process> bench_;
};

TEST_F(ShortAnswerTest, PrintsNoAccuracyForLagLongerThanAnswers) {
  ASSERT_EQ(measure({"--lags", "9999", "--links", "lan"}), 0) << bench_->err();
  EXPECT_TRUE(contains(bench_->out(), "lag 9999: - of -\n"));
}

TEST_F(ShortAnswerTest, RefusesPaceProfileWithoutDrafter) {
  const auto profile = scratch_.write("other.toml", "[draft.step_ms]\n\"moa-tli1\" = 1\n");
  EXPECT_EQ(measure({"--pace-profile", profile}), kUsageError);
  EXPECT_TRUE(contains(bench_->err(), "[draft.step_ms]"));
  EXPECT_TRUE(contains(bench_->err(), "moa-tli0"));
}

// At one token per second plain decoding takes most of a minute. Every arm must wait for all its
// answers: one that stops early would be compared on other prompts.
TEST(BenchDraftersTest, EveryArmAnswersSamePrompts) {
  const test::TemporaryDirectory scratch;
  const auto pace = scratch.write("slow.toml",
                                  "[target]\npass_ms = [[1, 1000], [63, 1000]]\n"
                                  "[draft.step_ms]\ndefault = 10\n");
  std::ofstream prompts(scratch / "prompts.jsonl");
  for (const char* animal : {"hen", "dog", "cat", "cow", "duck"}) {
    const std::string prompt = std::string("Tell me a story about a ") + animal + ".";
    prompts << nlohmann::json{{"task", "story"}, {"prompt", prompt}} << "\n";
  }
  prompts.close();
  Process bench({EDGEDRAFT_BENCH, "drafters", "--model", demo_model("target"), "--bundle",
                 demo_model("moa-tli0"), "--prompts", scratch / "prompts.jsonl", "--max-tokens",
                 "8", "--lags", "9999", "--links", "lan", "--pace-profile", pace, "--json"},
                scratch / "bench");
  ASSERT_EQ(bench.wait(), 0) << bench.err();
  const auto rows = nlohmann::json::parse(bench.out());
  ASSERT_EQ(rows.size(), 2u);
  const double plain = rows[0]["tokens_per_second"]["lan"]["sequential"];
  for (const char* way : {"sequential", "overlap"}) {
    const double speed = rows[1]["tokens_per_second"]["lan"][way];
    const auto& times = rows[1]["times_plain"]["lan"][way];
    // Both arms get the same answers, so times alone compare them.
    EXPECT_NEAR(times["value"].get<double>(), speed / plain, 1e-9) << way;
    EXPECT_LE(times["low"].get<double>(), times["value"].get<double>()) << way;
    EXPECT_GE(times["high"].get<double>(), times["value"].get<double>()) << way;
  }
}

}  // namespace
}  // namespace edgedraft::testing
