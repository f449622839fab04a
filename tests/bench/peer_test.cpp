#include "tests/bench/peer.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>

#include "tests/e2e/process.h"
#include "tests/support/expect.h"

namespace edgedraft::bench {
namespace {

// A stand-in for llama-bench: prints `text` and records its arguments.
class PeerTest : public ::testing::Test {
 protected:
  Result<std::vector<PeerPass>> run_one_that_prints(const std::string& text, bool on_gpu = false) {
    std::ofstream(scratch_ / "printed") << text;
    const std::filesystem::path program = scratch_ / "llama-bench";
    std::ofstream(program) << "#!/bin/sh\necho \"$@\" > '" << (scratch_ / "called").string()
                           << "'\ncat '" << (scratch_ / "printed").string() << "'\n";
    std::filesystem::permissions(program, std::filesystem::perms::owner_all);
    return run(program, on_gpu);
  }
  Result<std::vector<PeerPass>> run(const std::string& program, bool on_gpu = false) {
    return run_peer({.program = program,
                     .model = "m.gguf",
                     .widths = {1, 8},
                     .threads = 2,
                     .repetitions = 3,
                     .on_gpu = on_gpu});
  }
  std::string called() {
    std::ifstream file(scratch_ / "called");
    std::string line;
    std::getline(file, line);
    return line;
  }

 private:
  test::TemporaryDirectory scratch_;
};

TEST_F(PeerTest, ReadsTimesByWidth) {
  const auto passes = run_one_that_prints(R"([
    {"n_prompt": 8, "n_gen": 0, "avg_ns": 5, "samples_ns": [30000000, 20000000]},
    {"n_prompt": 1, "n_gen": 0, "avg_ns": 5, "samples_ns": [10000000]}])");
  ASSERT_TRUE(passes) << passes.error().message;
  ASSERT_EQ(passes->size(), 2u);
  EXPECT_EQ((*passes)[0].width, 1u);
  EXPECT_EQ((*passes)[0].seconds, (std::vector<double>{0.01}));
  EXPECT_EQ((*passes)[1].width, 8u);
  EXPECT_EQ((*passes)[1].seconds, (std::vector<double>{0.03, 0.02}));
  EXPECT_EQ(called(), "-m m.gguf -t 2 -n 0 -p 1,8 -r 3 -o json");
}

TEST_F(PeerTest, OffloadsAllLayersToGpu) {
  const auto passes = run_one_that_prints(
      R"([{"n_prompt": 1, "n_gen": 0, "samples_ns": [1]}, {"n_prompt": 8, "n_gen": 0, "samples_ns": [2]}])",
      true);
  ASSERT_TRUE(passes) << passes.error().message;
  EXPECT_EQ(called(), "-m m.gguf -t 2 -n 0 -p 1,8 -r 3 -o json -ngl 99 -fa 1");
}

TEST_F(PeerTest, NamesMissingProgram) {
  const auto passes = run("/nowhere/llama-bench");
  ASSERT_FALSE(passes);
  EXPECT_EQ(passes.error().message, "program not found: '/nowhere/llama-bench'");
}

TEST_F(PeerTest, FailureNamesCommand) {
  const auto passes = run("false");
  ASSERT_TRUE(fails_with(passes, Errc::io, "false -m m.gguf"));
}

TEST_F(PeerTest, RejectsOutputWithoutTimes) {
  for (const char* text :
       {"", "| model | t/s |", "{}", "[]", "[1, 2]", R"([{"n_prompt": 1, "n_gen": 0}])",
        R"([{"n_prompt": 1, "n_gen": 0, "samples_ns": [1]}])",
        R"([{"n_prompt": 1, "n_gen": 0, "samples_ns": []},
            {"n_prompt": 8, "n_gen": 0, "samples_ns": [1]}])",
        R"([{"n_prompt": 1, "n_gen": 0, "samples_ns": [0]},
            {"n_prompt": 8, "n_gen": 0, "samples_ns": [1]}])",
        R"([{"n_prompt": 1, "n_gen": 0, "samples_ns": "soon"},
            {"n_prompt": 8, "n_gen": 0, "samples_ns": [1]}])"}) {
    EXPECT_TRUE(fails_with(run_one_that_prints(text), Errc::unsupported, "llama-bench")) << text;
  }
}

}  // namespace
}  // namespace edgedraft::bench
