#include "client/control/draft_control.h"

#include <gtest/gtest.h>

#include <optional>
#include <vector>

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

// What a server says of itself.
struct Told {
  Duration wide_pass;
  double tokens;  // a tree
  Duration pass;
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
      if (decision.stream) ++streamed_;
      if (!decision.stream) {
        ++drafted_;
        control_.observe_cycle({.rows = kShape.nodes + 1,
                                .levels = kShape.depth,
                                .tokens = kShape.depth,
                                .drafting = place.step * kShape.depth,
                                .link = place.link,
                                .server = place.wide_pass});
        if (told_stream_ > Duration::zero()) control_.expect_stream(told_stream_);
        continue;
      }
      control_.observe_stream_begin(place.link);
      for (std::uint32_t t = 1; t < decision.look_after; ++t) {
        control_.observe_streamed(1, place.pass);
      }
    }
    return streams;
  }

  // A prompt is answered, with what the server says; it says of streams with each verdict.
  void prompt(const Told& told, Duration link) {
    control_.expect_stream(told.pass);
    control_.observe_prompt(40, link, 50ms);
    // As of drafts of 1, 2, 4, 8 and 16 rows.
    std::vector<DraftControl::Expected> sizes;
    for (int size = 0; size <= 4; ++size) {
      sizes.push_back({.server = told.pass + (told.wide_pass - told.pass) * size / 4,
                       .tokens = 1 + (told.tokens - 1) * size / 4});
    }
    control_.expect_drafts(sizes);
    told_stream_ = told.pass;
  }

  static constexpr TreeShape kShape{.breadth = 4, .depth = 4, .nodes = 15};
  DraftControl control_;
  Duration told_stream_{};
  int drafted_ = 0;
  int streamed_ = 0;  // decisions
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

TEST_F(DraftControlTest, StreamsAtOnceWhereTheServerTellsThatItPays) {
  prompt({.wide_pass = 20ms, .tokens = 4, .pass = 5ms}, 20ms);
  EXPECT_TRUE(runs({.step = 1ms, .link = 20ms, .wide_pass = 20ms, .pass = 5ms}, 30));
  EXPECT_EQ(drafted_, 0);
}

// Trees are not timed while the device works on something private.
TEST_F(DraftControlTest, TreesThatWereNotTimedDoNotCountAsDraftedInNoTime) {
  const Place slow_device{.step = 20ms, .link = 1ms, .wide_pass = 20ms, .pass = 10ms};
  EXPECT_TRUE(runs(slow_device, 30));
  for (int i = 0; i < 30; ++i) {
    control_.observe_cycle({.rows = kShape.nodes + 1,
                            .levels = kShape.depth,
                            .tokens = kShape.depth,
                            .drafting = std::nullopt,
                            .link = slow_device.link,
                            .server = slow_device.wide_pass});
  }
  EXPECT_TRUE(control_.decide(kShape).stream) << control_.why();
}

TEST_F(DraftControlTest, DraftsAtOnceWhereTheServerTellsThatItPaysAndTriesNothing) {
  prompt({.wide_pass = 33ms, .tokens = 4, .pass = 30ms}, 10ms);
  EXPECT_FALSE(runs({.step = 1ms, .link = 10ms, .wide_pass = 33ms, .pass = 30ms}, 100));
  EXPECT_EQ(streamed_, 0);
}

// The server knows nothing of how fast this device drafts.
TEST_F(DraftControlTest, ASlowDrafterIsFoundOutWithFewTrees) {
  prompt({.wide_pass = 33ms, .tokens = 4, .pass = 30ms}, 10ms);
  EXPECT_TRUE(runs({.step = 40ms, .link = 10ms, .wide_pass = 33ms, .pass = 30ms}, 50));
  EXPECT_LE(drafted_, 3);
}

// Nor does anybody know for long that it was slow: streams do not tell.
TEST_F(DraftControlTest, ASlowTreeIsNotHeldAgainstTheDrafterForEver) {
  const Told told{.wide_pass = 33ms, .tokens = 4, .pass = 30ms};
  const Place place{.step = 1ms, .link = 10ms, .wide_pass = 33ms, .pass = 30ms};
  Place slow = place;
  slow.step = 40ms;
  prompt(told, 10ms);
  ASSERT_TRUE(runs(slow, 20));
  int streamed_prompts = 0;
  do {
    ASSERT_LT(++streamed_prompts, 10);
    prompt(told, 10ms);
  } while (runs(place, 3));
  EXPECT_EQ(streamed_prompts, 8);
  EXPECT_FALSE(runs(place, 30));
  prompt(told, 10ms);
  EXPECT_FALSE(runs(place, 30));
}

// If it is slow indeed, that is found out again, at the cost of two trees.
TEST_F(DraftControlTest, ASlowDrafterIsTriedAgainNowAndThen) {
  for (int answer = 0; answer < 25; ++answer) {
    prompt({.wide_pass = 33ms, .tokens = 4, .pass = 30ms}, 10ms);
    EXPECT_TRUE(runs({.step = 40ms, .link = 10ms, .wide_pass = 33ms, .pass = 30ms}, 20));
  }
  EXPECT_GT(drafted_, 3);
  EXPECT_LE(drafted_, 12);
}

TEST_F(DraftControlTest, AServerThatPromisesTooMuchOfDraftsCostsAFewOfThem) {
  for (const double tokens : {4.0, 30.0}) {
    SCOPED_TRACE(tokens);
    control_ = {};
    drafted_ = 0;
    prompt({.wide_pass = 1us, .tokens = tokens, .pass = 10ms}, 5ms);
    EXPECT_TRUE(runs({.step = 1ms, .link = 5ms, .wide_pass = 60ms, .pass = 10ms}, 50));
    EXPECT_LE(drafted_, 7);
    // The same promise before the next answer.
    drafted_ = 0;
    prompt({.wide_pass = 1us, .tokens = tokens, .pass = 10ms}, 5ms);
    EXPECT_TRUE(runs({.step = 1ms, .link = 5ms, .wide_pass = 60ms, .pass = 10ms}, 50));
    EXPECT_LE(drafted_, 7);
  }
}

TEST_F(DraftControlTest, AServerThatPromisesTooMuchOfStreamsIsBelievedOnce) {
  prompt({.wide_pass = 33ms, .tokens = 4, .pass = 1us}, 5ms);
  EXPECT_FALSE(runs({.step = 1ms, .link = 5ms, .wide_pass = 33ms, .pass = 30ms}, 200));
  EXPECT_EQ(streamed_, 1);
  prompt({.wide_pass = 33ms, .tokens = 4, .pass = 1us}, 5ms);
  EXPECT_FALSE(runs({.step = 1ms, .link = 5ms, .wide_pass = 33ms, .pass = 30ms}, 200));
  EXPECT_EQ(streamed_, 1);
}

TEST_F(DraftControlTest, AServerThatTalksDraftsDownIsCorrectedByThem) {
  // One cycle seems to bring a little less than streams; in truth it brings more.
  prompt({.wide_pass = 70ms, .tokens = 2, .pass = 20ms}, 5ms);
  EXPECT_TRUE(runs({.step = 1ms, .link = 5ms, .wide_pass = 33ms, .pass = 30ms}, 4));
  // With the next answer it says what is right.
  prompt({.wide_pass = 33ms, .tokens = 4, .pass = 30ms}, 5ms);
  EXPECT_FALSE(runs({.step = 1ms, .link = 5ms, .wide_pass = 33ms, .pass = 30ms}, 20));
}

// What would be better for one is worse for all where each draft makes the others wait.
TEST_F(DraftControlTest, LeavesAServerThatPrefersStreamsAloneUnlessItGainsMuch) {
  const Told told{.wide_pass = 33ms, .tokens = 4, .pass = 15ms};
  const Place place{.step = 1ms, .link = 10ms, .wide_pass = 33ms, .pass = 15ms};
  prompt(told, 10ms);
  EXPECT_FALSE(runs(place, 10));
  control_.expect_crowd(true);
  EXPECT_TRUE(runs(place, 10));
  control_.expect_crowd(false);
  EXPECT_FALSE(runs(place, 10));
  control_.expect_crowd(true);
  EXPECT_FALSE(runs({.step = 100us, .link = 1ms, .wide_pass = 20ms, .pass = 15ms}, 40));
}

TEST_F(DraftControlTest, GoesOverToStreamsWhereTheServerTellsThatTheyBecameFaster) {
  prompt({.wide_pass = 33ms, .tokens = 4, .pass = 30ms}, 10ms);
  const Place before{.step = 1ms, .link = 10ms, .wide_pass = 33ms, .pass = 30ms};
  EXPECT_FALSE(runs(before, 20));
  told_stream_ = 4ms;
  EXPECT_TRUE(runs({.step = 1ms, .link = 10ms, .wide_pass = 33ms, .pass = 4ms}, 10));
}

}  // namespace
}  // namespace edgedraft
