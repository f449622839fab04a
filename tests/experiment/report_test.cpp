#include <gtest/gtest.h>

#include <fstream>

#include "netsim/report/plot.h"
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
  const auto figure = draw(
      {.title = "names",
       .note = {},
       .script = "set ytics (" + quoted(name) + " 0) noenhanced\nset yrange [-1:1]\nplot x notitle",
       .legend = {}});
  if (!figure && figure.error().code == Errc::unsupported) {
    EDGEDRAFT_SKIP_WITHOUT("gnuplot", figure.error().message);
  }
  ASSERT_TRUE(figure) << figure.error().message;
  EXPECT_FALSE(std::filesystem::exists(file));
  EXPECT_NE(figure->find("`touch " + file + "` it's {/Bold x}_1 @y \"z\""), std::string::npos)
      << *figure;
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
