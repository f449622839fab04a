#include <gtest/gtest.h>
#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iostream>
#include <map>
#include <sstream>

#include "tests/e2e/process.h"
#include "tests/support/expect.h"
#include "tests/support/skip.h"

// The report as a browser shows it: headless Chromium at a desktop's and a phone's width.
namespace edgedraft::testing {
namespace {

using namespace std::chrono_literals;

std::string find_in_path(const std::string& name) {
  std::stringstream path(std::getenv("PATH") ? std::getenv("PATH") : "");
  for (std::string folder; std::getline(path, folder, ':');) {
    const std::string file = folder + '/' + name;
    if (access(file.c_str(), X_OK) == 0) return file;
  }
  return {};
}

std::size_t count_of(const std::string& text, const std::string& what) {
  std::size_t count = 0;
  for (std::size_t at = text.find(what); at != std::string::npos; at = text.find(what, at + 1)) {
    ++count;
  }
  return count;
}

// A small experiment with results of every kind.
constexpr const char* kExperiment = R"(name = "every-kind"
title = "A report with <everything>"
networks = ["lan", "5g-near"]
devices = ["slow"]
tasks = ["tool", "arith"]
prompt_count = 2
max_tokens = 20
warm_up = 0
baseline = "stream"
clients = [1, 2]
[calibration]
pings = 5
[[arm]]
name = "stream"
kind = "plain"
place = "server"
[[arm]]
name = "split"
kind = "split"
bundle = "moa-tli0"
[[arm]]
name = "oracle"
kind = "split"
bundle = "independent"
chain = 3
acceptance = 0.8
[published]
source = "A paper"
plain_tokens_per_second = 10
plain_target_calls = 20
[[published.row]]
arm = "split"
network = "lan"
tokens_per_second = 15
acceptance_length = 3
target_calls = 5
)";
constexpr const char* kCutExperiment = R"(name = "cut"
title = "Cut"
networks = ["lan"]
tasks = ["tool"]
prompt_count = 3
max_tokens = 40
warm_up = 0
baseline = "stop"
offline_after = [2, "never"]
[calibration]
pings = 5
[[arm]]
name = "stop"
kind = "stop"
[[arm]]
name = "split"
kind = "split"
bundle = "moa-tli0"
)";

class ReportBrowserTest : public ::testing::Test {
 protected:
  void SetUp() override {
    browser_ = find_in_path("chromium");
    if (browser_.empty()) EDGEDRAFT_SKIP_WITHOUT("chromium", "apt-get install chromium");
    if (find_in_path("gnuplot").empty())
      EDGEDRAFT_SKIP_WITHOUT("gnuplot", "apt-get install gnuplot-nox");
  }

  std::filesystem::path make_report(const std::string& experiment) {
    std::ofstream(scratch_ / "slow.toml")
        << "name = \"slow\"\ndescription = \"slow\"\n[target]\npass_ms = [[1, 15]]\n";
    std::ofstream(scratch_ / "x.toml") << "models = \"" << EDGEDRAFT_MODELS << "\"\n" << experiment;
    Process run({EDGEDRAFT_NETSIM, "run", scratch_ / "x.toml", "--driver", "loopback", "--out",
                 scratch_ / "results"},
                scratch_ / "run");
    EXPECT_EQ(run.wait(280s), 0) << run.err();
    return scratch_.path() / "results/report.html";
  }

  // The page after its scripts; `width` in CSS pixels. Fails on any message in the browser's
  // console.
  std::string show(const std::filesystem::path& page, int width) {
    const std::string size = "--window-size=" + std::to_string(width) + ",2400";
    const auto image = scratch_ / ("page-" + std::to_string(width) + ".png");
    std::vector<std::string> command{browser_,
                                     "--headless=new",
                                     "--no-sandbox",
                                     "--disable-gpu",
                                     "--hide-scrollbars",
                                     "--enable-logging=stderr",
                                     "--user-data-dir=" + (scratch_ / "browser").string(),
                                     size};
    std::vector<std::string> shot = command;
    shot.push_back("--screenshot=" + image.string());
    command.push_back("--dump-dom");
    const std::string url = "file://" + page.string();
    command.push_back(url);
    shot.push_back(url);
    Process dom(command, scratch_ / "dom", "", environment());
    EXPECT_EQ(dom.wait(120s), 0) << dom.err();
    EXPECT_EQ(dom.err().find("CONSOLE"), std::string::npos) << dom.err();
    Process picture(shot, scratch_ / "shot", "", environment());
    EXPECT_EQ(picture.wait(120s), 0) << picture.err();
    std::error_code missing;
    EXPECT_GT(std::filesystem::file_size(image, missing), 20'000u)
        << "the screenshot is nearly empty";
    if (const char* folder = std::getenv("EDGEDRAFT_TEST_SCREENSHOTS")) {
      std::filesystem::copy_file(image,
                                 std::filesystem::path(folder) / (std::to_string(width) + ".png"),
                                 std::filesystem::copy_options::overwrite_existing, missing);
    }
    return dom.out();
  }
  std::map<std::string, std::string> environment() const {
    return {{"HOME", scratch_.path().string()}};
  }

  // Elements wider than the window at that width, as a script in the page finds them.
  std::string what_sticks_out(const std::filesystem::path& page, int width) {
    std::string html = test::file_text(page);
    html.insert(html.rfind("</body>"), R"(<script>
      const inside = e => e.closest('.scroll') || e.closest('pre') || e.closest('svg');
      const out = [...document.querySelectorAll('body *')]
          .filter(e => !inside(e) && e.getBoundingClientRect().right > innerWidth + 1);
      const flat = [...document.querySelectorAll('svg')]
          .filter(e => e.getBoundingClientRect().height < 100);
      document.body.dataset.checked =
          'out:' + out.map(e => e.tagName).join() + ' flat:' + flat.length + ' wide:' +
          (document.documentElement.scrollWidth > innerWidth);
      </script>)");
    const auto copy = scratch_ / "checked.html";
    std::ofstream(copy, std::ios::binary) << html;
    const std::string dom = show(copy, width);
    const std::size_t at = dom.find("data-checked=\"");
    return at == std::string::npos ? "no script ran"
                                   : dom.substr(at + 14, dom.find('"', at + 14) - at - 14);
  }

  test::TemporaryDirectory scratch_;
  std::string browser_;
};

TEST_F(ReportBrowserTest, ShowsEveryTableAndPlotAtDesktopAndPhoneWidths) {
  const auto page = make_report(kExperiment);
  const std::string html = test::file_text(page);
  // The page is one file and fetches nothing.
  for (const char* fetched : {"src=\"http", "href=\"http", "url(http", "@import", "<script"}) {
    EXPECT_EQ(html.find(fetched), std::string::npos) << fetched;
  }
  for (const int width : {1280, 390}) {
    const std::string dom = show(page, width);
    for (const char* section :
         {"published", "arms", "capacity", "plots", "calibration", "setup", "source"}) {
      EXPECT_TRUE(contains(dom, "<section id=\"" + std::string(section) + "\""));
    }
    EXPECT_TRUE(contains(dom, "A report with &lt;everything&gt;"));
    for (const char* text :
         {"Paced.", "Synthetic acceptance.", "No link.", "A paper", "×1.50",
          "Tokens per second against the round trip, slow", "Time per token by phase, lan · slow",
          "Gaps between visible updates, 5g-near · slow", "An answer over time, lan · slow",
          "Tokens per second of the server, lan · slow"}) {
      EXPECT_TRUE(contains(dom, text));
    }
    EXPECT_EQ(count_of(dom, "<figure"), count_of(dom, "<svg"));
    EXPECT_EQ(count_of(dom, "<figure"), 9u);
    // Every colour is defined by the page, for light and dark.
    EXPECT_EQ(count_of(dom, "rgb("), 0u);
    EXPECT_EQ(what_sticks_out(page, width), "out: flat:0 wide:false") << width;
  }
}

TEST_F(ReportBrowserTest, ShowsEffectsOfCutLink) {
  const auto page = make_report(kCutExperiment);
  const std::string dom = show(page, 1280);
  EXPECT_TRUE(contains(dom, "Success after the link was cut"));
  EXPECT_TRUE(contains(dom, "B = 2"));
  EXPECT_TRUE(contains(dom, "Shaded: the link is down"));
  EXPECT_TRUE(contains(dom, "var(--shade)"));
}

}  // namespace
}  // namespace edgedraft::testing
