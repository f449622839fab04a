#include "netsim/run/results.h"

#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <fstream>
#include <map>
#include <string>
#include <utility>

#include "netsim/run/run_record.h"
#include "tests/support/expect.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft::netsim {
namespace {

using edgedraft::test::TemporaryDirectory;
using nlohmann::ordered_json;

class ResultsTest : public ::testing::Test {
 protected:
  std::filesystem::path folder() const { return directory_.path() / "out"; }
  void start() {
    auto results = ResultsFolder::open(folder(), false, "hash").value();
    ASSERT_TRUE(results.write_manifest({{"experiment_sha256", "hash"}}));
    ASSERT_TRUE(results.add_run("t1", {{{"trial", "t1"}, {"text", "a, \"b\""}}},
                                {{{"trial", "t1"}, {"at_ms", 1}}}));
  }
  TemporaryDirectory directory_;
};

TEST_F(ResultsTest, RemovesIncompleteTrialAfterKill) {
  start();
  // Killed between a trial's cycles and its run, inside a line.
  std::ofstream(folder() / "cycles.jsonl", std::ios::app) << "{\"trial\":\"t2\",\"at_ms\":2}\n";
  std::ofstream(folder() / "runs.jsonl", std::ios::app)
      << "{\"trial\":\"t2\",\"last_of_trial\":false}\n{\"trial\":\"t2\",\"last_";
  const auto results = ResultsFolder::open(folder(), true, "hash").value();
  EXPECT_TRUE(results.has("t1"));
  EXPECT_FALSE(results.has("t2"));
  EXPECT_EQ(test::file_text(folder() / "cycles.jsonl").find("t2"), std::string::npos);
  EXPECT_EQ(test::file_text(folder() / "runs.jsonl").find("t2"), std::string::npos);
  EXPECT_EQ(read_lines(folder() / "runs.jsonl")->size(), 1u);
}

TEST_F(ResultsTest, RepeatsRunsOnLinkOutOfTolerance) {
  {
    auto results = ResultsFolder::open(folder(), false, "hash");
    ASSERT_TRUE(results->write_manifest({{"experiment_sha256", "hash"}}));
    for (const char* stage : {"good|d|1", "bad|d|1"}) {
      const std::string trial = std::string(stage) + "|0|p|1|arm|never";
      ASSERT_TRUE(results->add_run(trial, {{{"trial", trial}}}, {}));
      ASSERT_TRUE(results->add_calibration({{"stage", stage}, {"accepted", stage[0] == 'g'}}));
    }
  }
  {
    const auto kept = ResultsFolder::open(folder(), true, "hash", true);
    EXPECT_TRUE(kept->has("bad|d|1|0|p|1|arm|never"));
  }
  const auto results = ResultsFolder::open(folder(), true, "hash");
  EXPECT_TRUE(results->has("good|d|1|0|p|1|arm|never"));
  EXPECT_FALSE(results->has("bad|d|1|0|p|1|arm|never"));
  EXPECT_EQ(read_lines(folder() / "calibration.jsonl")->size(), 1u);
}

// A busy machine at the resumed run does not invalidate earlier answers.
TEST_F(ResultsTest, ResumedSessionWithoutAnswersKeepsEarlierOnes) {
  const std::string trial = "s|d|1|0|p|1|arm|never";
  {
    auto results = ResultsFolder::open(folder(), false, "hash");
    ASSERT_TRUE(results->write_manifest({{"experiment_sha256", "hash"}}));
    ASSERT_EQ(results->session(), 1u);
    ASSERT_TRUE(results->add_calibration(
        {{"stage", "s|d|1"}, {"when", "before"}, {"lane", 1}, {"session", 1}, {"accepted", true}}));
    ASSERT_TRUE(results->add_run(trial, {{{"trial", trial}, {"lane", 1}, {"session", 1}}}, {}));
  }
  {
    auto results = ResultsFolder::open(folder(), true, "hash");
    ASSERT_EQ(results->session(), 2u);
    ASSERT_TRUE(results->add_calibration({{"stage", "s|d|1"},
                                          {"when", "before"},
                                          {"lane", 1},
                                          {"session", 2},
                                          {"accepted", false}}));
  }
  EXPECT_TRUE(ResultsFolder::look(folder(), "hash")->has(trial));
  const auto results = ResultsFolder::open(folder(), true, "hash");
  EXPECT_TRUE(results->has(trial));
  EXPECT_EQ(read_lines(folder() / "runs.jsonl")->size(), 1u);
  EXPECT_EQ(read_lines(folder() / "calibration.jsonl")->size(), 1u);
  EXPECT_EQ(results->unmeasured_lanes("s|d|1"), (std::map<std::size_t, std::uint32_t>{{1, 1}}));
}

TEST_F(ResultsTest, LinkOutOfToleranceDropsOnlyItsAnswers) {
  const auto trial = [](std::uint32_t session, int lane) {
    return "s|d|1|0|p" + std::to_string(session) + std::to_string(lane) + "|1|arm|never";
  };
  for (std::uint32_t session = 1; session <= 2; ++session) {
    auto results = ResultsFolder::open(folder(), session > 1, "hash").value();
    ASSERT_TRUE(results.write_manifest({{"experiment_sha256", "hash"}}));
    ASSERT_EQ(results.session(), session);
    for (const int lane : {1, 2}) {
      ordered_json line{{"stage", "s|d|1"},
                        {"when", "before"},
                        {"lane", lane},
                        {"session", session},
                        {"accepted", true}};
      ASSERT_TRUE(results.add_calibration(line));
      const std::string id = trial(session, lane);
      ASSERT_TRUE(results.add_run(id, {{{"trial", id}, {"lane", lane}, {"session", session}}}, {}));
      if (session == 1) continue;
      line["when"] = "after";
      line["accepted"] = lane == 1;
      ASSERT_TRUE(results.add_calibration(line));
    }
  }
  const auto results = ResultsFolder::open(folder(), true, "hash");
  for (std::uint32_t session = 1; session <= 2; ++session) {
    for (const int lane : {1, 2}) {
      EXPECT_EQ(results->has(trial(session, lane)), session == 1 || lane == 1) << session << lane;
    }
  }
}

TEST_F(ResultsTest, RepeatsFailedAnswersOnResume) {
  start();
  {
    auto results = ResultsFolder::open(folder(), true, "hash");
    // Two clients' answers, one of them failed.
    ASSERT_TRUE(results->add_run("t2",
                                 {{{"trial", "t2"}, {"client", 0}, {"failure", "no server"}},
                                  {{"trial", "t2"}, {"client", 1}, {"failure", nullptr}}},
                                 {{{"trial", "t2"}, {"at_ms", 1}}}));
    ASSERT_TRUE(results->add_run("t3", {{{"trial", "t3"}, {"failure", nullptr}}}, {}));
    EXPECT_TRUE(results->has("t2")) << "one attempt per session";
  }
  const auto results = ResultsFolder::open(folder(), true, "hash");
  EXPECT_TRUE(results->has("t1"));
  EXPECT_FALSE(results->has("t2"));
  EXPECT_TRUE(results->has("t3"));
  EXPECT_EQ(test::file_text(folder() / "runs.jsonl").find("t2"), std::string::npos);
  EXPECT_EQ(test::file_text(folder() / "cycles.jsonl").find("t2"), std::string::npos);
}

TEST_F(ResultsTest, ResumingClearsFinishedTime) {
  start();
  {
    auto results = ResultsFolder::open(folder(), true, "hash");
    ASSERT_TRUE(results->write_manifest(
        {{"experiment_sha256", "hash"}, {"finished", "2026-01-02T03:04:05Z"}}));
    ASSERT_TRUE(results->add_calibration({{"stage", "s"}, {"accepted", false}}));
  }
  const auto finished = [&] {
    return ordered_json::parse(test::file_text(folder() / "manifest.json"));
  };
  ASSERT_TRUE(ResultsFolder::look(folder(), "hash"));
  EXPECT_FALSE(finished()["finished"].is_null());
  ASSERT_TRUE(ResultsFolder::open(folder(), true, "hash"));
  EXPECT_TRUE(finished()["finished"].is_null());
  EXPECT_EQ(finished()["experiment_sha256"], "hash");
}

TEST_F(ResultsTest, LookReportsProgressWithoutChanges) {
  EXPECT_EQ(ResultsFolder::look(folder(), "hash").error().code, Errc::usage);
  EXPECT_FALSE(std::filesystem::exists(folder()));
  start();
  std::ofstream(folder() / "runs.jsonl", std::ios::app) << "{\"trial\":\"t2\",\"last_";
  const auto before = test::file_text(folder() / "runs.jsonl");
  const auto seen = ResultsFolder::look(folder(), "hash").value();
  EXPECT_TRUE(seen.has("t1"));
  EXPECT_FALSE(seen.has("t2"));
  EXPECT_EQ(test::file_text(folder() / "runs.jsonl"), before);
  EXPECT_EQ(ResultsFolder::look(folder(), "other").error().code, Errc::usage);
}

TEST_F(ResultsTest, RefusesResultsOfOtherExperiment) {
  start();
  EXPECT_EQ(ResultsFolder::open(folder(), false, "hash").error().code, Errc::usage);
  const auto other = ResultsFolder::open(folder(), true, "other");
  ASSERT_FALSE(other);
  EXPECT_TRUE(contains(other.error().message, "another experiment"));
  EXPECT_EQ(ResultsFolder::open(directory_.path() / "none", true, "hash").error().code,
            Errc::usage);
}

// The user removed the manifest to start again.
TEST_F(ResultsTest, RefusesLeftoversWithoutManifest) {
  start();
  const auto answers = folder() / "work/answers";
  std::filesystem::create_directories(answers);
  std::ofstream(answers / "old.json") << "{}";
  std::filesystem::remove(folder() / "manifest.json");
  for (const char* name : {"runs.jsonl", "cycles.jsonl"}) {
    const auto refused = ResultsFolder::open(folder(), false, "hash");
    ASSERT_TRUE(fails_with(refused, Errc::usage, name)) << name;
    EXPECT_TRUE(contains(refused.error().message, "--out"));
    EXPECT_TRUE(std::filesystem::exists(answers / "old.json"));
    std::filesystem::remove(folder() / name);
  }
  const auto fresh = ResultsFolder::open(folder(), false, "hash");
  ASSERT_TRUE(fresh) << fresh.error().message;
  EXPECT_FALSE(std::filesystem::exists(answers));
  EXPECT_FALSE(ResultsFolder::open(folder(), false, "hash"));
}

TEST_F(ResultsTest, KeepsForeignWorkFolder) {
  std::filesystem::create_directories(folder() / "work");
  std::ofstream(folder() / "work/thesis.txt") << "years";
  EXPECT_TRUE(fails_with(ResultsFolder::open(folder(), false, "hash"), Errc::usage));
  EXPECT_TRUE(std::filesystem::exists(folder() / "work/thesis.txt"));
}

TEST_F(ResultsTest, RefusesSecondWriter) {
  start();
  const auto first = ResultsFolder::open(folder(), true, "hash");
  ASSERT_TRUE(first);
  const auto second = ResultsFolder::open(folder(), true, "hash");
  ASSERT_FALSE(second);
  EXPECT_TRUE(contains(second.error().message, "another run"));
}

TEST_F(ResultsTest, CsvQuotesCommasAndQuotes) {
  start();
  const auto results = ResultsFolder::open(folder(), true, "hash");
  ASSERT_TRUE(results->write_csv());
  EXPECT_EQ(test::file_text(folder() / "runs.csv"), "trial,text\nt1,\"a, \"\"b\"\"\"\n");
}

class RunRecordTest : public ::testing::Test {
 protected:
  RunRecordTest() {
    e_.prompts = {{.id = "p"}};
    e_.arms = {{.name = "split", .kind = Arm::Kind::split}};
  }

  Experiment e_;
  DeviceProfile device_{.name = "native"};
  NetworkProfile network_{.name = "lan"};
  Trial trial_{.arm = 0, .prompt = 0, .id = "t"};
  RunSource source_{.experiment = e_,
                    .network = network_,
                    .device = device_,
                    .driver = "tun",
                    .approximate = false,
                    .seed = 1,
                    .trial = trial_,
                    .client = 0,
                    .status = 0,
                    .answer = {},
                    .cycles = {},
                    .added_ms = 0,
                    .events = ordered_json::array()};
};

// The model covers a fixed hold over a lasting link, without outages or a client's own choice.
TEST_F(RunRecordTest, PredictsNeitherAutoNorOutages) {
  const TemporaryDirectory scratch;
  const auto pace =
      PaceProfile::read(
          scratch.write(
              "slow.toml",
              "name = \"slow\"\n[target]\npass_ms = [[1, 20]]\n[draft.step_ms]\ndefault = 3\n"))
          .value();
  device_ = {.name = "slow", .file = {}, .pace = pace};
  network_ = *read_network_profile("lan");
  source_.answer = "{\"stats\":{\"tokens\":8,\"seconds\":1,\"prompt_tokens\":10}}";
  const ordered_json outage = ordered_json::array({{{"kind", "down"}, {"at_ms", 300}}});
  for (const auto& [hold, events] :
       {std::pair("lockstep", ordered_json::array()), std::pair("auto", ordered_json::array()),
        std::pair("lockstep", outage)}) {
    e_.arms = {{.name = "split", .kind = Arm::Kind::split, .hold = hold, .acceptance = 0.8}};
    source_.events = events;
    EXPECT_EQ(run_record(source_)["predicted_tokens_per_second"].is_number(),
              hold == std::string("lockstep") && events.empty());
  }
}

// Scripts join answers to prompts by name or by index.
TEST_F(RunRecordTest, RecordsPromptAndIndexPerClient) {
  e_.prompts = {{.id = "a"}, {.id = "b"}, {.id = "c"}};
  e_.arms = {{.name = "stream", .kind = Arm::Kind::plain}};
  e_.quick = true;
  trial_ = {.arm = 0, .prompt = 1, .clients = 3, .id = "t"};
  for (const std::uint32_t client : {0u, 1u, 2u}) {
    const std::size_t index = (1 + client) % 3;
    source_.client = client;
    const ordered_json run = run_record(source_);
    EXPECT_EQ(run["prompt_index"], index) << client;
    EXPECT_EQ(run["prompt"], e_.prompts[index].id);
    EXPECT_EQ(run["quick"], true);
    EXPECT_EQ(run["timed"], true);
  }
}

TEST_F(RunRecordTest, SumsPhasesAndFindsGapsBetweenVisibleUpdates) {
  e_.prompts = {{.id = "p", .reference = " yes "}};
  source_.answer =
      "{\"text\":\"yes\\n\",\"stats\":{\"tokens\":8,\"seconds\":1.5,"
      "\"time_to_first_token_s\":0.1}}";
  source_.cycles =
      "{\"kind\":\"answer\"}\n"
      "{\"at_ms\":100,\"tokens\":1,\"draft_ms\":0,\"network_ms\":30}\n"
      "{\"at_ms\":150,\"tokens\":0,\"draft_ms\":5}\n"
      "{\"at_ms\":1300,\"tokens\":7,\"draft_ms\":7,\"network_ms\":31,"
      "\"server\":{\"queue_ms\":1,\"held_ms\":4,\"verify_ms\":9},"
      "\"tcp\":{\"retransmits\":2}}\n";
  source_.added_ms = 500;
  const ordered_json run = run_record(source_);
  EXPECT_EQ(run["draft_ms"], 12.0);
  EXPECT_EQ(run["network_ms"], 61.0);
  EXPECT_EQ(run["held_ms"], 4.0);
  EXPECT_EQ(run["verify_ms"], 9.0);
  EXPECT_EQ(run["gap_ms_max"], 1200.0);
  EXPECT_EQ(run["stalls_over_1s"], 1);
  EXPECT_EQ(run["tcp_retransmits"], 2.0);
  // An arm beside the server pays for the round trip that it did not make.
  EXPECT_EQ(run["tokens_per_second"], 4.0);
  EXPECT_EQ(run["time_to_first_token_s"], 0.6);
  EXPECT_EQ(run["matches_reference"], true);

  source_.status = 3;
  source_.failure = "no server";
  const ordered_json failed = run_record(source_);
  EXPECT_EQ(failed["failure"], "no server");
  EXPECT_TRUE(failed["tokens_per_second"].is_null());
  // Every line of the CSV has the same columns.
  EXPECT_EQ(failed.size(), run.size());
}

}  // namespace
}  // namespace edgedraft::netsim
