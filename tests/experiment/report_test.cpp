#include <gtest/gtest.h>

#include "netsim/report/plot.h"
#include "tests/support/skip.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft::netsim {
namespace {

using edgedraft::test::TemporaryDirectory;

// Arms and networks are called as whoever wrote the experiment likes.
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

}  // namespace
}  // namespace edgedraft::netsim
