#include <gtest/gtest.h>

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <fstream>
#include <sstream>
#include <string>
#include <utility>
#include <vector>

#include "netsim/report/plot.h"
#include "netsim/report/report.h"
#include "netsim/report/run_data.h"
#include "netsim/report/sections.h"
#include "tests/support/expect.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft::netsim {
namespace {

using edgedraft::test::TemporaryDirectory;

// Authors of experiments may give arms and networks any names.
TEST(PlotTest, EscapesNames) {
  const TemporaryDirectory directory;
  const std::string file = (directory / "ran").string();
  const std::string name = "`touch " + file + "` it's {/Bold x}_1 @y \"z\"";
  const std::string format = "100 % sure %d";
  const auto figure = draw({.title = "names",
                            .note = {},
                            .script = "set ytics (" + tic_label(name) + " 0, " + tic_label(format) +
                                      " 1) noenhanced\nset yrange [-1:1]\nplot x notitle",
                            .legend = {}});
  if (!figure && figure.error().code == Errc::unsupported) {
    EDGEDRAFT_SKIP_WITHOUT("gnuplot", figure.error().message);
  }
  ASSERT_TRUE(figure) << figure.error().message;
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_TRUE(contains(*figure, name));
  EXPECT_TRUE(contains(*figure, format));
}

netsim::Run run_of(const std::string& arm, const std::string& setting = "lan") {
  netsim::Run run{};
  run.setting = setting;
  run.arm = arm;
  run.clients = 1;
  return run;
}

std::vector<netsim::Run> six_prompts(const std::vector<std::string>& arms) {
  std::vector<netsim::Run> runs;
  for (int i = 0; i < 6; ++i) {
    for (const std::string& arm : arms) {
      netsim::Run& run = runs.emplace_back(run_of(arm));
      run.prompt = run.pair_key = "tool-" + std::to_string(i);
    }
  }
  return runs;
}

using Spans = std::vector<std::pair<double, double>>;

// The shaded spans of an answer over nine seconds.
Spans shaded(const netsim::Run& run) {
  const std::pair key{run.setting, run.arm};
  RunData data;
  data.settings = {run.setting};
  data.arms = {run.arm};
  data.timelines[key] = {{.at_ms = 100, .answer_tokens = 1, .state = {}},
                         {.at_ms = 9000, .answer_tokens = 2, .state = {}}};
  data.timeline_runs[key] = 0;
  data.runs = {run};
  const auto plots = timeline_plots(data);
  Spans spans;
  if (plots.size() != 1) return spans;
  const std::string& script = plots[0].script;
  for (std::size_t at = 0; (at = script.find("rectangle from ", at)) != std::string::npos; ++at) {
    auto& [from, to] = spans.emplace_back();
    EXPECT_EQ(
        std::sscanf(script.c_str() + at, "rectangle from %lf, graph 0 to %lf, graph 1", &from, &to),
        2);
  }
  return spans;
}

// An outage ends with the link's return, its own duration or the next outage, whichever comes
// first.
TEST(FiguresTest, ShadesOutageUntilLinkReturns) {
  netsim::Run run = run_of("split");
  run.events = nlohmann::ordered_json::parse(R"([
    {"kind": "down", "at_ms": 1000, "duration_ms": 0},
    {"kind": "new_address", "at_ms": 1500, "duration_ms": 0},
    {"kind": "up", "at_ms": 2000, "duration_ms": 0},
    {"kind": "down", "at_ms": 3000, "duration_ms": 500},
    {"kind": "down", "at_ms": 4000, "duration_ms": 5000},
    {"kind": "down", "at_ms": 6000, "duration_ms": 1000}])");
  EXPECT_EQ(shaded(run), (Spans{{1, 2}, {3, 3.5}, {4, 6}, {6, 7}}));
}

// Curves begin at the answer's request, events at its client's start.
TEST(FiguresTest, ShadesOutageRelativeToRequest) {
  netsim::Run run = run_of("split");
  run.asked_at_s = 0.5;
  run.events = nlohmann::ordered_json::parse(R"([
    {"kind": "down", "at_ms": 100, "duration_ms": 200},
    {"kind": "down", "at_ms": 400, "duration_ms": 350},
    {"kind": "down", "at_ms": 1500, "duration_ms": 250},
    {"kind": "down", "at_ms": 2500, "duration_ms": 0}])");
  EXPECT_EQ(shaded(run), (Spans{{0, 0.25}, {1, 1.25}, {2, 9}}));
}

TEST(FiguresTest, OmitsUnmeasuredLinkFromRoundTripPlot) {
  RunData data;
  data.arms = {"split"};
  for (const char* network : {"lan", "leo", "lossy"}) {
    netsim::Run run = run_of("split", std::string(network) + " · native");
    run.network = network;
    run.device = "native";
    run.rate = 10;
    data.settings.push_back(run.setting);
    data.runs.push_back(run);
    nlohmann::ordered_json line{{"stage", run.network + "|native|1"}};
    if (run.network != "lossy") line["round_trip_ms_median"] = run.network == "lan" ? 2 : 50;
    data.calibrations.push_back(line);
  }
  const auto plots = round_trip_plots(data);
  ASSERT_EQ(plots.size(), 1u);
  EXPECT_TRUE(contains(plots[0].script, "EOD\n2 10\n50 10\nEOD"));
  EXPECT_TRUE(contains(plots[0].note, "could not be measured"));
  data.calibrations.pop_back();
  data.runs.pop_back();
  data.settings.pop_back();
  EXPECT_EQ(round_trip_plots(data).at(0).note.find("could not be measured"), std::string::npos);
}

TEST(FiguresTest, BarsHoldEveryPhase) {
  RunData data;
  data.settings = {"lan"};
  data.arms = {"split"};
  netsim::Run run = run_of("split");
  run.tokens = 10;
  for (std::size_t i = 0; i < run.phases.size(); ++i) {
    run.phases[i] = kPhaseNames[i] == std::string("held") ? 240 : 10;
  }
  data.runs = {run};
  const auto plots = phase_plots(data);
  ASSERT_EQ(plots.size(), 1u);
  ASSERT_EQ(plots[0].legend.size(), run.phases.size());
  double end = 0;
  double held = 0;
  for (const auto& [series, name] : plots[0].legend) {
    const std::string block = "$p" + std::to_string(series) + " << EOD\n";
    std::istringstream box(plots[0].script.substr(plots[0].script.find(block) + block.size()));
    double centre = 0, row = 0, left = 0, right = 0;
    box >> centre >> row >> left >> right;
    EXPECT_DOUBLE_EQ(left, end) << name;
    end = right;
    if (name == "held") held = right - left;
  }
  EXPECT_DOUBLE_EQ(held, 24);
  EXPECT_DOUBLE_EQ(end, 30);
}

// Six prompts with equal answers by "stream" and "split"; "split" is twice as fast.
class ArmsTableTest : public ::testing::Test {
 protected:
  ArmsTableTest() {
    data_.manifest = {{"baseline", "stream"}, {"driver", "tun"}, {"timed", true}, {"quick", false}};
    data_.settings = {"lan"};
    data_.arms = {"stream", "split"};
    data_.runs = six_prompts(data_.arms);
    for (netsim::Run& run : data_.runs) {
      run.tokens = 64;
      run.rate = run.arm == "split" ? 20 : 10;
      run.answer = "the target's";
    }
  }
  std::string row(const std::string& arm) const {
    const std::string html = arms_section(data_);
    const std::size_t at = html.find("<th scope=\"row\">" + arm + "</th>");
    return at == std::string::npos ? "none" : html.substr(at, html.find("</tr>", at) - at);
  }

  RunData data_;
};

TEST_F(ArmsTableTest, ClaimsSignificantSpeedup) {
  EXPECT_TRUE(contains(row("split"), "×2.00"));
  EXPECT_TRUE(contains(row("split"), "<td>faster</td>"));
  EXPECT_FALSE(contains(arms_section(data_), "offline"));
}

TEST_F(ArmsTableTest, ShowsOfflineShareAndFlagsDifferentText) {
  for (netsim::Run& run : data_.runs) {
    if (run.arm == "split") run.offline_tokens = 48;
  }
  // The offline share stays even if the target later accepts all of it.
  EXPECT_TRUE(contains(arms_section(data_), "<th scope=\"col\">written offline</th>"));
  EXPECT_TRUE(contains(row("split"), "<td>75.0 %</td>"));
  EXPECT_TRUE(contains(row("split"), "<td>faster</td>"));
  EXPECT_FALSE(contains(row("stream"), " %</td>")) << row("stream");
  data_.runs.back().answer = "the drafter's";
  EXPECT_FALSE(contains(row("split"), "faster")) << row("split");
  EXPECT_TRUE(contains(row("split"), "different text"));
}

TEST_F(ArmsTableTest, ShowsFailedAnswers) {
  data_.runs[0].failure = "timed out";
  EXPECT_TRUE(contains(row("stream"), "<td>5, 1 failed</td>"));
  for (netsim::Run& run : data_.runs) {
    if (run.arm == "stream") run.failure = "timed out";
  }
  EXPECT_TRUE(contains(row("stream"), "<td>0, 6 failed</td>"));
  EXPECT_FALSE(contains(row("split"), "faster")) << row("split");
}

TEST_F(ArmsTableTest, OmitsRatiosOfMeaninglessTimes) {
  using Setting = std::pair<std::string, nlohmann::ordered_json>;
  for (const auto& [key, value] : {Setting("timed", false), Setting("driver", "loopback")}) {
    const auto before = data_.manifest;
    data_.manifest[key] = value;
    EXPECT_FALSE(contains(row("split"), "×")) << key << row("split");
    EXPECT_FALSE(contains(row("split"), "faster")) << key << row("split");
    EXPECT_TRUE(contains(row("split"), "<td>6 of 6</td>")) << key << row("split");
    data_.manifest = before;
  }
}

TEST_F(ArmsTableTest, QuickRunClaimsNothing) {
  data_.manifest["quick"] = true;
  EXPECT_TRUE(contains(row("split"), "×2.00"));
  EXPECT_FALSE(contains(row("split"), "faster")) << row("split");
  EXPECT_TRUE(contains(row("split"), "quick run"));
}

// Six prompts whose link was cut after ten tokens: "stop" got none of them right, "split" all.
class CutTableTest : public ::testing::Test {
 protected:
  CutTableTest() {
    data_.manifest = {
        {"quick", false},
        {"arms", {{{"name", "stop"}, {"kind", "stop"}}, {{"name", "split"}, {"kind", "split"}}}}};
    data_.settings = {"lan"};
    data_.arms = {"stop", "split"};
    data_.runs = six_prompts(data_.arms);
    for (netsim::Run& run : data_.runs) {
      run.offline_after = 10;
      run.right = run.arm == "split";
    }
  }
  RunData data_;
};

TEST_F(CutTableTest, ClaimsGainOfContinuing) {
  const std::string html = cut_section(data_);
  EXPECT_TRUE(contains(html, "<small>[100; 100 to 100]</small>"));
}

TEST_F(CutTableTest, QuickRunClaimsNothing) {
  data_.manifest["quick"] = true;
  const std::string html = cut_section(data_);
  EXPECT_TRUE(contains(html, "<small>[quick run]</small>"));
  EXPECT_EQ(html.find(" to 100]"), std::string::npos) << html;
}

// Two trials of two clients each, a second long, in which either client gets ten tokens.
class CapacityTableTest : public ::testing::Test {
 protected:
  CapacityTableTest() {
    data_.manifest = {{"baseline", "stream"}, {"driver", "tun"}};
    data_.settings = {"lan"};
    data_.arms = {"stream"};
    for (const std::uint32_t i : {0u, 1u, 2u, 3u}) {
      netsim::Run run = run_of("stream");
      run.trial = "t" + std::to_string(i / 2);
      run.clients = 2;
      run.client = i % 2;
      run.rate = 10;
      run.arrivals = {{.at_s = 0.5, .tokens = 5}, {.at_s = 1, .tokens = 5}};
      data_.runs.push_back(run);
    }
  }
  RunData data_;
};

TEST_F(CapacityTableTest, ShowsSingleClientCount) {
  const std::string html = capacity_section(data_);
  EXPECT_TRUE(contains(html, "2 clients"));
  EXPECT_TRUE(contains(html, "<td>20.0 <small>10.0</small></td>"));
  EXPECT_EQ(arms_section(data_), "");
}

TEST_F(CapacityTableTest, CountsFailedAnswers) {
  data_.runs[0].failure = "timed out";
  EXPECT_TRUE(contains(capacity_section(data_), "<td>20.0 <small>10.0</small>, 1 failed</td>"));
  for (netsim::Run& run : data_.runs) run.failure = "timed out";
  EXPECT_TRUE(contains(capacity_section(data_), "<td>–, 4 failed</td>"));
}

TEST_F(CapacityTableTest, IsEmptyForSingleClients) {
  for (netsim::Run& run : data_.runs) run.clients = 1;
  EXPECT_EQ(capacity_section(data_), "");
}

// One answer over a link that was never measured.
void write_results(const std::filesystem::path& folder) {
  std::ofstream(folder / "manifest.json") << R"({"driver": "proxy", "arms": [{"name": "stream"}]})";
  std::ofstream(folder / "runs.jsonl")
      << R"({"trial": "t", "network": "lan", "device": "native", "arm": "stream", )"
      << R"("clients": 1, "tokens": 8, "tokens_per_second": 4})" << '\n';
}

TEST(ReportTest, WritesTablesWithoutPlots) {
  const TemporaryDirectory results;
  write_results(results.path());
  const TemporaryDirectory programs;
  const auto report = [&] {
    const std::string path = std::getenv("PATH");
    setenv("PATH", programs.path().c_str(), 1);
    auto written = write_report(results.path());
    setenv("PATH", path.c_str(), 1);
    return written.value();
  };
  const auto check = [&](const Report& written, Errc code, const std::string& why) {
    ASSERT_TRUE(written.undrawn);
    EXPECT_EQ(written.undrawn->code, code);
    EXPECT_TRUE(contains(written.undrawn->message, why));
    const std::string page = test::file_text(written.file);
    EXPECT_TRUE(contains(page, "<td>4.00</td>"));
    EXPECT_TRUE(contains(page, "Not drawn: "));
    EXPECT_TRUE(contains(page, why));
    // As the manifest says, whether or not a link was measured.
    EXPECT_TRUE(contains(page, "Approximate link."));
  };
  check(report(), Errc::unsupported, "gnuplot not found");
  std::ofstream(programs / "gnuplot") << "#!/bin/sh\necho there is no ink >&2\nexit 1\n";
  std::filesystem::permissions(programs / "gnuplot", std::filesystem::perms::owner_all);
  check(report(), Errc::io, "there is no ink");
}

TEST(ReportTest, MarksNetemLinksWithHeldDelaysApproximate) {
  for (const bool approximate : {false, true}) {
    const TemporaryDirectory results;
    std::ofstream(results / "manifest.json") << R"({"driver": "tc", "arms": [{"name": "stream"}]})";
    std::ofstream(results / "runs.jsonl")
        << R"({"trial": "t", "network": "n", "device": "native", "arm": "stream", "clients": 1, )"
        << R"("tokens": 8, "tokens_per_second": 4, "link_approximate": )"
        << (approximate ? "true" : "false") << "}\n";
    const auto written = write_report(results.path()).value();
    const std::string page = test::file_text(written.file);
    EXPECT_EQ(page.find("Approximate link.") != page.npos, approximate) << page;
  }
}

TEST(RunDataFilesTest, IgnoresIncompleteLastLine) {
  const TemporaryDirectory results;
  write_results(results.path());
  std::ofstream(results / "runs.jsonl", std::ios::app) << "{\"trial\": \"t2\", \"netw";
  std::ofstream(results / "calibration.jsonl") << "{\"accepted\": false}\n{\"acc";
  const auto data = read_run_data(results.path()).value();
  EXPECT_EQ(data.runs.size(), 1u);
  EXPECT_EQ(data.calibrations.size(), 1u);
}

TEST(RunDataFilesTest, NamesBrokenLine) {
  for (const std::string name : {"runs.jsonl", "calibration.jsonl"}) {
    const TemporaryDirectory results;
    write_results(results.path());
    std::ofstream(results / name, std::ios::app) << "{}\n{\"acc\n{}\n";
    const auto data = read_run_data(results.path());
    ASSERT_FALSE(data) << name;
    const std::string line = name == "runs.jsonl" ? ", line 3" : ", line 2";
    EXPECT_TRUE(contains(data.error().message, name + line));
  }
}

class RunDataTest : public ::testing::Test {
 protected:
  void write_manifest(const std::string& manifest) {
    std::ofstream(results_ / "manifest.json") << manifest;
  }
  RunData read() {
    runs_.flush();
    cycles_.flush();
    auto data = read_run_data(results_.path());
    EXPECT_TRUE(data) << data.error().message;
    return data ? *std::move(data) : RunData{};
  }

  TemporaryDirectory results_;
  std::ofstream runs_{results_ / "runs.jsonl"};
  std::ofstream cycles_{results_ / "cycles.jsonl"};
};

TEST_F(RunDataTest, ExcludesFailedAnswersFromGaps) {
  write_manifest("{}");
  for (const char* trial : {"good", "bad"}) {
    const std::string failure = trial[0] == 'b' ? "\"the server ended\"" : "null";
    const std::string start = "{\"trial\": \"" + std::string(trial) + "\", \"client\": 0, ";
    runs_ << start << "\"network\": \"lan\", \"device\": \"native\", \"arm\": \"" << trial
          << "\", \"clients\": 1, \"failure\": " << failure << "}\n";
    for (const char* at : {"10", "25"}) {
      cycles_ << start << "\"kind\": \"draft\", \"tokens\": 2, \"at_ms\": " << at << "}\n";
    }
  }
  const RunData data = read();
  EXPECT_EQ(data.runs.size(), 2u);
  ASSERT_EQ(data.gaps.size(), 1u);
  EXPECT_EQ(data.gaps.begin()->first.second, "good");
  EXPECT_EQ(data.gaps.begin()->second, std::vector<double>{15});
}

// An arm beside the server gets its tokens a round trip later than its client reports.
TEST_F(RunDataTest, AddsRoundTripToArrivalTimes) {
  write_manifest("{}");
  for (const int client : {0, 1}) {
    const std::string start = "{\"trial\": \"t\", \"client\": " + std::to_string(client);
    runs_ << start << ", \"network\": \"lan\", \"device\": \"native\", \"arm\": \"stream\", "
          << "\"clients\": 2, \"added_round_trip_ms\": 250}\n";
    for (const int tokens : {0, client + 1}) {
      cycles_ << start << ", \"kind\": \"draft\", \"tokens\": " << tokens << ", \"at_ms\": 500}\n";
    }
  }
  const RunData data = read();
  for (const netsim::Run& run : data.runs) {
    ASSERT_EQ(run.arrivals.size(), 1u);
    EXPECT_DOUBLE_EQ(run.arrivals[0].at_s, 0.75);
    EXPECT_EQ(run.arrivals[0].tokens, run.client + 1);
  }
}

// Answers of two lanes; the lane with the second prompt was faster.
TEST_F(RunDataTest, TimelinesUsePromptAnsweredByMostArms) {
  write_manifest(R"({"arms": [{"name": "stream"}, {"name": "split"}, {"name": "oracle"}]})");
  const auto answer = [&](const std::string& prompt, int index, const std::string& arm,
                          const nlohmann::ordered_json& failure = nullptr) {
    const nlohmann::ordered_json run{
        {"trial", prompt + arm}, {"client", 0},        {"clients", 1},
        {"network", "lan"},      {"device", "native"}, {"prompt", prompt},
        {"prompt_index", index}, {"arm", arm},         {"failure", failure}};
    runs_ << run << '\n';
    const nlohmann::ordered_json cycle{{"trial", prompt + arm}, {"client", 0},
                                       {"kind", "draft"},       {"tokens", 1},
                                       {"answer_tokens", 1},    {"at_ms", 1000 * (index + 1)}};
    cycles_ << cycle << '\n';
  };
  answer("tool-3", 2, "split");
  answer("tool-2", 1, "split");
  answer("tool-1", 0, "stream");
  answer("tool-2", 1, "oracle");
  answer("tool-1", 0, "split", "the server ended");
  answer("tool-2", 1, "stream");
  answer("tool-1", 0, "oracle");
  answer("tool-3", 2, "oracle");
  answer("tool-3", 2, "stream");
  const RunData data = read();
  ASSERT_EQ(data.timelines.size(), 3u);
  for (const auto& [key, moments] : data.timelines) {
    ASSERT_EQ(moments.size(), 1u) << key.second;
    EXPECT_EQ(moments[0].at_ms, 2000) << key.second;
  }
  EXPECT_TRUE(contains(timeline_plots(data).at(0).note, "tool-2"));
}

// If a link was cut, each arm's answer must be over the same cut.
TEST_F(RunDataTest, TimelinesUseSameCut) {
  write_manifest(R"({"arms": [{"name": "stop"}, {"name": "split"}]})");
  const auto answer = [&](const std::string& arm, const nlohmann::ordered_json& cut) {
    runs_ << nlohmann::ordered_json{{"trial", arm + cut.dump()}, {"clients", 1},
                                    {"network", "lan"},          {"device", "native"},
                                    {"prompt", "tool-1"},        {"arm", arm},
                                    {"offline_after", cut}}
          << '\n';
  };
  answer("stop", nullptr);
  answer("split", 25);
  answer("stop", 25);
  answer("split", nullptr);
  answer("split", 10);
  answer("stop", 10);
  const RunData data = read();
  ASSERT_EQ(data.timeline_runs.size(), 2u);
  for (const auto& [key, run] : data.timeline_runs) {
    EXPECT_EQ(data.runs[run].offline_after, 10u) << key.second;
  }
}

}  // namespace
}  // namespace edgedraft::netsim
