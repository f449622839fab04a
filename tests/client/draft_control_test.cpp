#include "client/draft_control.h"

#include <gtest/gtest.h>

namespace edgedraft {
namespace {

using namespace std::chrono_literals;

// A drafter, a link and a server as the control might meet them; trees bring as many tokens as they
// have levels.
struct Place {
  Duration step;  // of drafting
  Duration link;
  Duration wide_pass;  // of a tree
  Duration pass;       // of a token
};

class DraftControlTest : public ::testing::Test {
 protected:
  // The control's way through so many decisions. True: it streams at the end.
  bool runs(const Place& place, int decisions) {
    bool streams = false;
    for (int i = 0; i < decisions; ++i) {
      const DraftControl::Decision decision = control_.decide(kShape);
      streams = decision.stream;
      changes_ += control_.changed();
      if (!decision.stream) {
        ++drafted_;
        control_.observe_cycle({.rows = kShape.nodes + 1,
                                .levels = kShape.depth,
                                .tokens = kShape.depth,
                                .drafting = place.step * kShape.depth,
                                .link = place.link,
                                .server = place.wide_pass});
        continue;
      }
      control_.observe_stream_begin(place.link);
      for (std::uint32_t t = 1; t < decision.look_after; ++t) {
        control_.observe_streamed(1, place.pass);
      }
    }
    return streams;
  }

  static constexpr TreeShape kShape{.breadth = 4, .depth = 4, .nodes = 15};
  DraftControl control_;
  int drafted_ = 0;
  int changes_ = 0;
};

TEST_F(DraftControlTest, DraftsWhereThePassIsWhatTakesTime) {
  EXPECT_FALSE(runs({.step = 2ms, .link = 5ms, .wide_pass = 40ms, .pass = 35ms}, 30));
  EXPECT_EQ(changes_, 0);
}

TEST_F(DraftControlTest, StreamsWhereTheLinkIsAndSaysWhy) {
  EXPECT_TRUE(runs({.step = 1ms, .link = 200ms, .wide_pass = 20ms, .pass = 10ms}, 30));
  EXPECT_LE(drafted_, 3);
  EXPECT_EQ(changes_, 1);
  EXPECT_NE(control_.why().find("tokens/s"), std::string::npos) << control_.why();
}

// Wide passes hide how cheap a single row is; it is tried.
TEST_F(DraftControlTest, FindsOutThatSingleRowsAreCheap) {
  EXPECT_TRUE(runs({.step = 1ms, .link = 5ms, .wide_pass = 20ms, .pass = 4ms}, 30));
}

TEST_F(DraftControlTest, TriesAStreamOnceWhereDraftsTurnOutFaster) {
  EXPECT_FALSE(runs({.step = 1ms, .link = 5ms, .wide_pass = 20ms, .pass = 19ms}, 100));
  EXPECT_EQ(drafted_, 99);
}

TEST_F(DraftControlTest, DoesNotEvenTryDraftsThatCouldNotWin) {
  control_.observe_prompt(40, 300ms, 8ms);
  EXPECT_TRUE(runs({.step = 1ms, .link = 300ms, .wide_pass = 8ms, .pass = 2ms}, 10));
  EXPECT_EQ(drafted_, 0);
}

TEST_F(DraftControlTest, FollowsALinkThatBecomesBetter) {
  EXPECT_TRUE(runs({.step = 1ms, .link = 200ms, .wide_pass = 40ms, .pass = 35ms}, 20));
  EXPECT_FALSE(runs({.step = 1ms, .link = 2ms, .wide_pass = 40ms, .pass = 35ms}, 60));
}

TEST_F(DraftControlTest, ALinkThatSwaysDoesNotMakeItFlap) {
  // About as good one way as the other.
  Place place{.step = 1ms, .link = 56ms, .wide_pass = 40ms, .pass = 25ms};
  runs(place, 20);
  const int settled = changes_;
  for (int i = 0; i < 50; ++i) {
    place.link = i % 2 == 0 ? 52ms : 60ms;
    runs(place, 1);
  }
  EXPECT_LE(changes_, settled + 1);
}

TEST_F(DraftControlTest, StreamsWhereTheRowBudgetLeavesNoNodes) {
  runs({.step = 1ms, .link = 1ms, .wide_pass = 40ms, .pass = 35ms}, 10);
  EXPECT_TRUE(control_.decide({.breadth = 4, .depth = 0, .nodes = 0}).stream);
  EXPECT_NE(control_.why().find("row budget"), std::string::npos);
}

}  // namespace
}  // namespace edgedraft
