#include <gtest/gtest.h>

#include <cstdio>
#include <cstdlib>
#include <fstream>

#include "netsim/report/figures.h"
#include "netsim/report/plot.h"
#include "netsim/report/report.h"
#include "netsim/report/run_data.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft::netsim {
namespace {

using edgedraft::test::TemporaryDirectory;

// The author of an experiment may give arms and networks any names.
TEST(PlotTest, ANameIsShownAndNeverRun) {
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
  EXPECT_NE(figure->find(name), std::string::npos) << *figure;
  EXPECT_NE(figure->find(format), std::string::npos) << *figure;
}

// What ends one is the link's return, its own time or the next one, whichever comes first.
TEST(FiguresTest, AnOutageIsShadedUntilTheLinkIsUpAgain) {
  netsim::Run run{};
  run.setting = "lan";
  run.arm = "split";
  run.events = nlohmann::ordered_json::parse(R"([
    {"kind": "down", "at_ms": 1000, "duration_ms": 0},
    {"kind": "new_address", "at_ms": 1500, "duration_ms": 0},
    {"kind": "up", "at_ms": 2000, "duration_ms": 0},
    {"kind": "down", "at_ms": 3000, "duration_ms": 500},
    {"kind": "down", "at_ms": 4000, "duration_ms": 5000},
    {"kind": "down", "at_ms": 6000, "duration_ms": 1000}])");
  const std::pair key{run.setting, run.arm};
  RunData data;
  data.settings = {run.setting};
  data.arms = {run.arm};
  data.timelines[key] = {{.at_ms = 100, .answer_tokens = 1, .state = {}},
                         {.at_ms = 9000, .answer_tokens = 2, .state = {}}};
  data.timeline_runs[key] = 0;
  data.runs = {run};
  const auto plots = timeline_plots(data);
  ASSERT_EQ(plots.size(), 1u);
  std::vector<std::pair<double, double>> spans;
  const std::string& script = plots[0].script;
  for (std::size_t at = 0; (at = script.find("rectangle from ", at)) != std::string::npos; ++at) {
    auto& [from, to] = spans.emplace_back();
    EXPECT_EQ(
        std::sscanf(script.c_str() + at, "rectangle from %lf, graph 0 to %lf, graph 1", &from, &to),
        2);
  }
  EXPECT_EQ(spans, (std::vector<std::pair<double, double>>{{1, 2}, {3, 3.5}, {4, 6}, {6, 7}}));
}

TEST(FiguresTest, ALinkThatWasNotMeasuredHasNoRoundTripToStandAt) {
  RunData data;
  data.arms = {"split"};
  for (const char* network : {"lan", "leo", "lossy"}) {
    netsim::Run run{};
    run.network = network;
    run.device = "native";
    run.setting = run.network + " · " + run.device;
    run.arm = "split";
    run.rate = 10;
    data.settings.push_back(run.setting);
    data.runs.push_back(run);
    nlohmann::ordered_json line{{"stage", run.network + "|native|1"}};
    if (run.network != "lossy") line["round_trip_ms_median"] = run.network == "lan" ? 2 : 50;
    data.calibrations.push_back(line);
  }
  const auto plots = round_trip_plots(data);
  ASSERT_EQ(plots.size(), 1u);
  EXPECT_NE(plots[0].script.find("EOD\n2 10\n50 10\nEOD"), std::string::npos) << plots[0].script;
  EXPECT_NE(plots[0].note.find("could not be measured"), std::string::npos) << plots[0].note;
  data.calibrations.pop_back();
  data.runs.pop_back();
  data.settings.pop_back();
  EXPECT_EQ(round_trip_plots(data).at(0).note.find("could not be measured"), std::string::npos);
}

// One answer over a link that was never measured.
void write_results(const std::filesystem::path& folder) {
  std::ofstream(folder / "manifest.json") << R"({"driver": "proxy", "arms": [{"name": "stream"}]})";
  std::ofstream(folder / "runs.jsonl")
      << R"({"trial": "t", "network": "lan", "device": "native", "arm": "stream", )"
      << R"("clients": 1, "tokens": 8, "tokens_per_second": 4})" << '\n';
}

TEST(ReportTest, TablesComeOutWithoutTheirPlots) {
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
    EXPECT_NE(written.undrawn->message.find(why), std::string::npos) << written.undrawn->message;
    std::ifstream file(written.file);
    const std::string page{std::istreambuf_iterator<char>(file), {}};
    EXPECT_NE(page.find("<td>4.00</td>"), std::string::npos) << page;
    EXPECT_NE(page.find("Not drawn: "), std::string::npos) << page;
    EXPECT_NE(page.find(why), std::string::npos) << page;
    // As the manifest says, whether a link was measured or not.
    EXPECT_NE(page.find("Approximate link."), std::string::npos) << page;
  };
  check(report(), Errc::unsupported, "gnuplot is missing");
  std::ofstream(programs / "gnuplot") << "#!/bin/sh\necho there is no ink >&2\nexit 1\n";
  std::filesystem::permissions(programs / "gnuplot", std::filesystem::perms::owner_all);
  check(report(), Errc::io, "there is no ink");
}

TEST(RunDataTest, AHalfWrittenLastLineHidesNoneBeforeIt) {
  const TemporaryDirectory results;
  write_results(results.path());
  std::ofstream(results / "runs.jsonl", std::ios::app) << "{\"trial\": \"t2\", \"netw";
  std::ofstream(results / "calibration.jsonl") << "{\"accepted\": false}\n{\"acc";
  const auto data = read_run_data(results.path());
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->runs.size(), 1u);
  EXPECT_EQ(data->calibrations.size(), 1u);
}

TEST(RunDataTest, ABrokenLineIsNamed) {
  for (const std::string name : {"runs.jsonl", "calibration.jsonl"}) {
    const TemporaryDirectory results;
    write_results(results.path());
    std::ofstream(results / name, std::ios::app) << "{}\n{\"acc\n{}\n";
    const auto data = read_run_data(results.path());
    ASSERT_FALSE(data) << name;
    const std::string line = name == "runs.jsonl" ? ", line 3" : ", line 2";
    EXPECT_NE(data.error().message.find(name + line), std::string::npos) << data.error().message;
  }
}

TEST(RunDataTest, FailedAnswersEnterNoGaps) {
  const TemporaryDirectory results;
  std::ofstream(results / "manifest.json") << "{}";
  std::ofstream runs(results / "runs.jsonl");
  std::ofstream cycles(results / "cycles.jsonl");
  for (const char* trial : {"good", "bad"}) {
    const std::string failure = trial[0] == 'b' ? "\"the server ended\"" : "null";
    const std::string start = "{\"trial\": \"" + std::string(trial) + "\", \"client\": 0, ";
    runs << start << "\"network\": \"lan\", \"device\": \"native\", \"arm\": \"" << trial
         << "\", \"clients\": 1, \"failure\": " << failure << "}\n";
    for (const char* at : {"10", "25"}) {
      cycles << start << "\"kind\": \"draft\", \"tokens\": 2, \"at_ms\": " << at << "}\n";
    }
  }
  runs.close();
  cycles.close();
  const auto data = read_run_data(results.path());
  ASSERT_TRUE(data) << data.error().message;
  EXPECT_EQ(data->runs.size(), 2u);
  ASSERT_EQ(data->gaps.size(), 1u);
  EXPECT_EQ(data->gaps.begin()->first.second, "good");
  EXPECT_EQ(data->gaps.begin()->second, std::vector<double>{15});
}

}  // namespace
}  // namespace edgedraft::netsim
