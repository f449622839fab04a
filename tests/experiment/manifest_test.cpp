#include "netsim/run/manifest.h"

#include <gtest/gtest.h>

#include <fstream>
#include <string>
#include <vector>

#include "tests/support/temporary_directory.h"

namespace edgedraft::netsim {
namespace {

std::string hash_of(const Experiment& e) {
  return experiment_hash(e, {}, {}, "tun", 0);
}

// Only the experiment that made the results may resume them.
TEST(ManifestTest, HashCoversFilesNamedInArmOptions) {
  const test::TemporaryDirectory directory;
  const std::string file = (directory / "names").string();
  for (const std::vector<std::string>& options :
       {std::vector<std::string>{"--private-names", file},
        std::vector<std::string>{"--private-names=" + file}}) {
    std::ofstream(file) << "Ada\n";
    Experiment e;
    e.arms = {{.name = "a", .options = options}};
    const std::string before = hash_of(e);
    EXPECT_EQ(hash_of(e), before);
    std::ofstream(file) << "Eve\n";
    EXPECT_NE(hash_of(e), before) << options.front();
  }
}

TEST(ManifestTest, HashCoversPromptTasks) {
  Experiment e;
  e.prompts = {{.id = "p", .task = "sql", .text = "What?", .reference = "That."}};
  const std::string before = hash_of(e);
  e.prompts[0].task = "tool";
  EXPECT_NE(hash_of(e), before);
}

}  // namespace
}  // namespace edgedraft::netsim
