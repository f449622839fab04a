#include "netsim/run/experiment.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>

#include "netsim/run/plan.h"
#include "tests/support/expect.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft::netsim {
namespace {

using edgedraft::test::TemporaryDirectory;

class ExperimentTest : public ::testing::Test {
 protected:
  ExperimentTest() {
    write("heldout.jsonl",
          "{\"task\": \"tool\", \"prompt\": \"a\", \"reference\": \"A\"}\n"
          "{\"task\": \"tool\", \"prompt\": \"b\"}\n"
          "{\"task\": \"story\", \"prompt\": \"c\"}\n");
    write("fast.toml", "name = \"fast\"\n[target]\npass_ms = [[1, 10], [5, 30]]\n");
  }
  void write(const std::string& name, const std::string& text) {
    std::ofstream(directory_.path() / name) << text;
  }
  Result<Experiment> read(const std::string& text, bool quick = false) {
    write("x.toml", text);
    return read_experiment(directory_.path() / "x.toml",
                           {.models = directory_.path(), .quick = quick});
  }
  std::string refusal(const std::string& text) {
    const auto experiment = read(text);
    EXPECT_FALSE(experiment) << text;
    return experiment ? std::string() : experiment.error().message;
  }

  TemporaryDirectory directory_;
};

constexpr const char* kGood =
    "networks = [\"lan\"]\ndevices = [\"fast\"]\nrepetitions = 4\n[quick]\nrepetitions = 2\n"
    "[[arm]]\nname = \"plain\"\nkind = \"plain\"\n";

TEST_F(ExperimentTest, ReadsPromptsDevicesAndQuickForm) {
  const auto whole = read(kGood).value();
  EXPECT_EQ(whole.repetitions, 4u);
  ASSERT_EQ(whole.prompts.size(), 3u);
  // Tasks are mixed, so that the first few prompts cover each.
  EXPECT_EQ(whole.prompts[0].id, "tool-1");
  EXPECT_EQ(whole.prompts[1].id, "story-1");
  EXPECT_EQ(whole.prompts[2].id, "tool-2");
  EXPECT_EQ(whole.devices.at(0).pace.target_pass(3), std::chrono::milliseconds(20));
  EXPECT_EQ(read(kGood, true)->repetitions, 2u);
}

TEST_F(ExperimentTest, ErrorsNameProblemAndRemedy) {
  const std::string good = kGood;
  EXPECT_TRUE(contains(refusal("networks = ["), "line 1"));
  EXPECT_TRUE(contains(refusal("network = [\"lan\"]\n" + good), "network: unknown key"));
  EXPECT_TRUE(contains(refusal("networks = [\"lan\"]\n"), "[[arm]]"));
  EXPECT_TRUE(contains(refusal(good + "chain = 4\n"), "does not draft"));
  EXPECT_NE(refusal(good + good.substr(good.find("[[arm]]"))).find("two arms"), std::string::npos);
  EXPECT_TRUE(contains(refusal(good + "[[arm]]\nname = \"s\"\nkind = \"split\"\n"), "give bundle"));
  const std::string split = "[[arm]]\nname = \"s\"\nkind = \"split\"\nbundle = \"moa-tli0\"\n";
  for (const char* tree : {"8", "8,6", "8,6,", "8,6,62,1", "8;6;62", "0,6,62", "wide", "-8,6,62",
                           "8, 6,62", "8,6,4294967296"}) {
    EXPECT_TRUE(contains(refusal(good + split + "tree = \"" + tree + "\"\n"), "8,6,62")) << tree;
  }
  EXPECT_TRUE(contains(refusal("baseline = \"none\"\n" + good), "no arm has the name"));
  EXPECT_NE(
      refusal("devices = [\"slow\"]\nnetworks = [\"lan\"]\n" + good.substr(good.find("[[arm]]")))
          .find("device profile 'slow' not found"),
      std::string::npos);
  // More clients than the server admits would measure its limits.
  std::string quick = good;
  quick.replace(quick.find("[quick]\n"), 8, "[quick]\nclients = [257]\n");
  for (const std::string& many : {"clients = [1, 257]\n" + good, quick}) {
    EXPECT_TRUE(contains(refusal(many), "1 to 256")) << many;
  }
  EXPECT_TRUE(contains(refusal("tasks = [\"poem\"]\n" + good), "no prompts"));
  EXPECT_TRUE(contains(refusal(good + "[calibration]\npings = 10001\n"), "5 to 10000"));
}

TEST_F(ExperimentTest, RefusesOptionsSetByExperiment) {
  const std::string split =
      std::string(kGood) + "[[arm]]\nname = \"waits\"\nkind = \"split\"\nbundle = \"moa-tli0\"\n";
  const auto with = [&](const std::string& options, const std::string& keys = "") {
    return split + keys + "options = [" + options + "]\n";
  };
  EXPECT_EQ(refusal(with(R"("--hold", "none")")),
            (directory_.path() / "x.toml").string() +
                ": [arm] in line 9: options: arm 'waits': --hold is set by the experiment; use the "
                "key hold");
  for (const char* options :
       {R"("--deadline-ms=9")", R"("-fprompt")", R"("--resync", "keep", "--json")"}) {
    EXPECT_TRUE(contains(refusal(with(options)), "arm 'waits'")) << options;
  }
  EXPECT_TRUE(contains(refusal(with(R"("--tree", "8,6,62")", "chain = 4\n")), "--tree"));
  EXPECT_TRUE(
      contains(refusal("temperature = 1.0\n" + with(R"("--temperature", "2")")), "--temperature"));
  for (const std::string& good : {with(R"("--resync", "keep")"), with(R"("--tree", "8,6,62")"),
                                  std::string(kGood) + R"(options = ["--hold", "lockstep"])"}) {
    EXPECT_TRUE(read(good)) << good;
  }
}

TEST_F(ExperimentTest, PromptTaskAndReferenceAreOptionalTexts) {
  write("heldout.jsonl", "{\"prompt\": \"a\", \"task\": null, \"reference\": null}\n");
  const auto missing = read(kGood).value();
  EXPECT_EQ(missing.prompts.at(0).id, "text-1");
  EXPECT_EQ(missing.prompts.at(0).reference, "");
  for (const char* key : {"task", "reference"}) {
    write("heldout.jsonl",
          "{\"prompt\": \"a\"}\n{\"prompt\": \"b\", \"" + std::string(key) + "\": 7}\n");
    const std::string message = refusal(kGood);
    EXPECT_TRUE(contains(message, "heldout.jsonl, line 2"));
    EXPECT_TRUE(contains(message, key));
  }
}

TEST_F(ExperimentTest, SkipsEmptyLines) {
  write("heldout.jsonl", "{\"prompt\": \"a\"}\n\n{\"prompt\": \"b\"}\n\n{}\n");
  EXPECT_TRUE(contains(refusal(kGood), "heldout.jsonl, line 5"));
  write("heldout.jsonl", "{\"prompt\": \"a\"}\n\n{\"prompt\": \"b\"}\n\n");
  const auto whole = read(kGood).value();
  ASSERT_EQ(whole.prompts.size(), 2u);
  EXPECT_EQ(whole.prompts[1].id, "text-2");
}

TEST_F(ExperimentTest, RefusesFolder) {
  EXPECT_TRUE(fails_with(read_experiment(directory_.path(), {}), Errc::usage, "is a folder"));
}

TEST_F(ExperimentTest, UncuttableArmNeedsLastingLink) {
  const std::string good = kGood;
  EXPECT_TRUE(
      contains(refusal("offline_after = [10]\n" + good), "arm 'plain' never runs: add \"never\""));
  EXPECT_TRUE(read("offline_after = [10, \"never\"]\n" + good));
  std::string stop = good;
  stop.replace(stop.find("kind = \"plain\""), 14, "kind = \"stop\"");
  EXPECT_TRUE(read("offline_after = [10]\n" + stop));
}

TEST_F(ExperimentTest, RefusesAmbiguousSettings) {
  const std::string good = kGood;
  EXPECT_TRUE(contains(refusal("seeds = [3, 1, 3]\n" + good), "seeds: 3 is listed twice"));
  EXPECT_TRUE(contains(refusal("clients = [4, 4]\n" + good), "clients: 4 is listed twice"));
  EXPECT_TRUE(contains(refusal("offline_after = [10, \"never\", 10]\n" + good),
                       "offline_after: 10 is listed twice"));
  write("other.toml", "name = \"fast\"\n[target]\npass_ms = [[1, 90]]\n");
  EXPECT_NE(refusal("networks = [\"lan\"]\ndevices = [\"fast\", \"other\"]\n" +
                    good.substr(good.find("[[arm]]")))
                .find("have the name 'fast'"),
            std::string::npos);
}

TEST_F(ExperimentTest, ShippedExperimentsAndDevicesAreValid) {
  const std::filesystem::path folder = std::filesystem::path(EDGEDRAFT_MODELS) / "../../netsim";
  int count = 0;
  for (const auto& entry : std::filesystem::directory_iterator(folder / "experiments")) {
    for (const bool quick : {false, true}) {
      const auto experiment = read_experiment(entry.path(), {.quick = quick}).value();
      // Shared settings are given once, for all arms. Arms compared with different options of their
      // own would be an unfair comparison.
      for (const Arm& arm : experiment.arms) {
        for (const char* shared : {"--temperature", "--max-tokens", "--seed", "--deadline-ms"}) {
          EXPECT_EQ(std::ranges::count(arm.options, shared), 0) << entry.path() << ": " << arm.name;
        }
      }
    }
    ++count;
  }
  EXPECT_GE(count, 4);
  for (const auto& entry : std::filesystem::directory_iterator(folder / "devices")) {
    const auto pace = PaceProfile::read(entry.path()).value();
    EXPECT_EQ(pace.name() + ".toml", entry.path().filename());
    EXPECT_FALSE(pace.description().empty());
  }
}

TEST_F(ExperimentTest, RunsLanesInParallelOnlyIfTimesAreUnaffected) {
  write("paced.toml",
        "name = \"paced\"\n[target]\npass_ms = [[1, 10]]\n[draft.step_ms]\ndefault = 3\n");
  const auto lanes = [&](const std::string& more) {
    const auto experiment =
        read("networks = [\"lan\"]\n" + more + "[[arm]]\nname = \"plain\"\nkind = \"plain\"\n");
    EXPECT_TRUE(experiment) << experiment.error().message;
    return experiment ? undisturbed_lanes(*experiment, 0) : 0;
  };
  EXPECT_EQ(lanes("devices = [\"native\"]\n"), 1u);
  EXPECT_GT(lanes("devices = [\"native\"]\ntimed = false\n"), 1u);
  EXPECT_EQ(lanes("devices = [\"fast\"]\n"), 1u);  // only the target is paced
  EXPECT_GT(lanes("devices = [\"paced\"]\n"), 1u);
  EXPECT_EQ(lanes("devices = [\"paced\"]\nclients = [1, 4]\n"), 1u);
}

}  // namespace
}  // namespace edgedraft::netsim
