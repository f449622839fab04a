#include "server/passes/admission.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "server/passes/delivery.h"
#include "server/sessions/pass.h"
#include "tests/server/toy_session.h"
#include "tests/support/heard_replies.h"
#include "tests/support/toy_models.h"

namespace edgedraft::server {
namespace {

using namespace std::chrono_literals;
using testing::kToyVocabulary;

class PausableReplies final : public testing::HeardReplies {
 public:
  bool full() const override { return is_full; }
  bool is_full = false;
};

// The smallest pool: 16 pages of 32 tokens.
class AdmissionTest : public testing::ToyTargetTest<256> {
 protected:
  static constexpr std::uint32_t kWaitingMax = 2;
  static constexpr std::uint32_t kWideDraft = kTreeNodesMax;  // takes 8 pages

  PausableReplies& replies(std::uint64_t id) {
    auto& replies = replies_[id];
    if (!replies) replies = std::make_shared<PausableReplies>();
    return *replies;
  }
  Session& session(std::uint64_t id) { return **sessions_.find_or_make(id, {std::byte(id)}, "a"); }
  std::uint32_t pages(std::uint64_t id) {
    return session(id).target.cache().slots() / KvPool::kPageSlots;
  }
  bool has_turn(std::uint64_t id) {
    return turns_.any_of([&](const Request& turn) { return turn.client.connection_id == id; });
  }
  bool waits(std::uint64_t id) {
    return std::ranges::any_of(turns_.prompts, [&](const PromptTurn& prompt) {
      return prompt.client.connection_id == id && prompt.waits;
    });
  }

  Request turn_of(std::uint64_t id, Instant posted) {
    replies(id);
    return {.client = {.connection_id = id, .reply = replies_[id], .tap = nullptr},
            .session = &session(id),
            .round = 1,
            .posted = posted};
  }
  // Admits a prompt of `page_count` full pages after those of the session.
  bool enter(std::uint64_t id, std::uint32_t page_count, Duration after = {}) {
    const std::vector<std::uint32_t> tokens(page_count * KvPool::kPageSlots, 5);
    EXPECT_TRUE(session(id).target.begin(
        {.base_count = session(id).target.valid_count(), .tokens = tokens}));
    const bool entered = admission_.enter(turns_.add(PromptTurn{turn_of(id, now_ + after)}));
    if (!entered) turns_.prompts.pop_back();
    return entered;
  }
  // Runs a prompt to completion.
  void run(std::uint64_t id) {
    ASSERT_TRUE(has_turn(id) && !waits(id));
    PassShare share{.session = &session(id).target, .rows_max = kMaskRowsMax};
    while (!share.outcome) run_pass(decoder_, std::span(&share, 1));
    turns_.erase_if([&](const Request& turn) { return turn.client.connection_id == id; });
  }
  void enter_and_run(std::uint64_t id, std::uint32_t page_count) {
    ASSERT_TRUE(enter(id, page_count));
    run(id);
  }
  // A run whose next pass has `nodes` nodes.
  RunTurn& draft(std::uint64_t id, std::uint32_t nodes) {
    DraftTree tree;
    while (tree.node_count() < nodes) tree.add(5, 0);
    const auto tokens = session(id).target.tokens();
    EXPECT_TRUE(session(id).target.begin(tree));
    auto run = std::make_unique<edgedraft::server::Run>(wire::RunTerms{.credit = kContext}, tokens,
                                                        kToyVocabulary);
    return turns_.add(RunTurn{turn_of(id, now_), std::move(run)});
  }
  void draft_plainly(std::uint64_t id, bool paused) {
    draft(id, 0);
    replies(id).is_full = paused;
  }
  // The client disconnects.
  void end(std::uint64_t id) {
    turns_.erase_if([&](const auto& turn) {
      if (turn.client.connection_id != id) return false;
      admission_.leave(turn);
      return true;
    });
    sessions_.release(id);
  }

  void expect_given_up(std::uint64_t id, const std::string& option) {
    EXPECT_FALSE(has_turn(id)) << id;
    EXPECT_EQ(sessions_.find(id), nullptr) << id;
    ASSERT_EQ(replies(id).refusals.size(), 1u) << id;
    EXPECT_EQ(replies(id).refusals[0].code, Errc::session_unknown) << id;
    EXPECT_NE(replies(id).refusals[0].message.find(option), std::string::npos) << id;
  }
  void expect_kept(std::uint64_t id) {
    EXPECT_TRUE(has_turn(id)) << id;
    EXPECT_NE(sessions_.find(id), nullptr) << id;
    EXPECT_TRUE(replies(id).refusals.empty()) << id;
  }
  std::uint64_t refused(Refusal why) const {
    return metrics_->refusals[static_cast<std::size_t>(why)].value();
  }

  Instant now_{1h};
  SessionParts parts_{.decoder = decoder_, .context_count = kContext, .is_end = [](std::uint32_t) {
                        return false;
                      }};
  SessionStore sessions_{parts_,
                         {.sessions_max = 8, .kv_bytes_max = SessionStore::session_bytes(parts_)},
                         [this] { return now_; }};
  std::shared_ptr<Metrics> metrics_ = std::make_shared<Metrics>();
  Delivery delivery_{{.speculation = nullptr, .metrics = metrics_, .now = [this] { return now_; }}};
  Admission admission_{sessions_, delivery_, kWaitingMax};
  std::map<std::uint64_t, std::shared_ptr<PausableReplies>> replies_;
  Turns turns_;
};

TEST_F(AdmissionTest, QueuesPromptsWithoutPagesWhenMemoryIsFull) {
  EXPECT_TRUE(enter(1, 7));
  EXPECT_TRUE(enter(2, 7));
  EXPECT_TRUE(enter(3, 3));
  EXPECT_FALSE(waits(1));
  EXPECT_FALSE(waits(2));
  EXPECT_TRUE(waits(3));
  EXPECT_EQ(admission_.waiting_count(), 1u);
  EXPECT_EQ(pages(1), 7u);
  EXPECT_EQ(pages(3), 0u);
  EXPECT_EQ(sessions_.memory().pages_held, 14u);
}

TEST_F(AdmissionTest, KeepsSmallPromptBehindQueuedOnes) {
  enter(1, 7);
  enter(2, 7);
  enter(3, 3);
  EXPECT_TRUE(enter(4, 1));
  EXPECT_TRUE(waits(4));
  EXPECT_EQ(admission_.waiting_count(), 2u);
  admission_.admit(turns_);
  EXPECT_TRUE(waits(3));
  EXPECT_TRUE(waits(4));
  EXPECT_EQ(pages(4), 0u);
  end(1);
  admission_.admit(turns_);
  EXPECT_EQ(admission_.waiting_count(), 0u);
  EXPECT_EQ(pages(3), 3u);
  EXPECT_EQ(pages(4), 1u);
}

TEST_F(AdmissionTest, ReleasesPagesOfWaitingPromptsSession) {
  enter_and_run(1, 3);
  enter(2, 7);
  enter(3, 7);
  EXPECT_TRUE(enter(1, 1));
  EXPECT_TRUE(waits(1));
  EXPECT_EQ(pages(1), 0u);
  admission_.admit(turns_);
  EXPECT_EQ(pages(3), 7u);
  EXPECT_TRUE(waits(1)) << "all four pages must be recomputed";
}

TEST_F(AdmissionTest, RefusesPromptAndDropsItsSessionWhenQueueIsFull) {
  enter(1, 7);
  enter(2, 7);
  enter(3, 7);
  enter(4, 7);
  EXPECT_FALSE(enter(5, 1));
  EXPECT_EQ(admission_.waiting_count(), kWaitingMax);
  EXPECT_EQ(sessions_.find(5), nullptr);
  ASSERT_EQ(replies(5).refusals.size(), 1u);
  EXPECT_EQ(replies(5).refusals[0].code, Errc::refused);
  EXPECT_NE(replies(5).refusals[0].message.find("2 prompts already wait"), std::string::npos);
  EXPECT_NE(replies(5).refusals[0].message.find("--kv-memory"), std::string::npos);
  EXPECT_EQ(refused(Refusal::no_room), 1u);
  for (const std::uint64_t id : {1, 2, 3, 4}) expect_kept(id);
}

TEST_F(AdmissionTest, AdmitsQueueInOrderOfPosting) {
  enter(1, 7);
  enter(2, 7);
  enter(3, 7, 2ms);
  enter(4, 7, 1ms);
  end(2);
  admission_.admit(turns_);
  EXPECT_FALSE(waits(4));
  EXPECT_EQ(pages(4), 7u);
  EXPECT_TRUE(waits(3));
  EXPECT_EQ(admission_.waiting_count(), 1u);
}

TEST_F(AdmissionTest, FreesQueuePlaceOfDepartedPrompt) {
  enter(1, 7);
  enter(2, 7);
  enter(3, 7);
  enter(4, 7);
  Session& left = session(3);
  end(3);
  EXPECT_FALSE(left.target.busy());
  EXPECT_EQ(admission_.waiting_count(), 1u);
  EXPECT_TRUE(enter(5, 7));
  EXPECT_EQ(admission_.waiting_count(), 2u);
  end(1);
  EXPECT_EQ(admission_.waiting_count(), 2u) << "a running prompt has no queue place";
}

TEST_F(AdmissionTest, TurnAwayDropsSessionsOfPromptsOnly) {
  enter_and_run(1, 7);
  draft(1, 1);
  enter(2, 7);
  enter(3, 7);
  turns_.erase_if([&](const auto& turn) {
    admission_.turn_away(turn, Refusal::deadline, {Errc::refused, "late"});
    return true;
  });
  for (const std::uint64_t id : {1, 2, 3}) {
    ASSERT_EQ(replies(id).refusals.size(), 1u) << id;
    EXPECT_EQ(replies(id).refusals[0].message, "late");
  }
  EXPECT_EQ(refused(Refusal::deadline), 3u);
  EXPECT_EQ(admission_.waiting_count(), 0u);
  ASSERT_NE(sessions_.find(1), nullptr);
  EXPECT_FALSE(session(1).target.busy());
  EXPECT_EQ(sessions_.find(2), nullptr) << "of the running prompt";
  EXPECT_EQ(sessions_.find(3), nullptr) << "of the waiting prompt";
}

TEST_F(AdmissionTest, GivesPagesToDraftBeforeQueuedPrompts) {
  enter_and_run(1, 6);
  enter_and_run(2, 6);
  draft(1, kWideDraft);
  enter(3, 6);
  ASSERT_TRUE(waits(3));
  end(2);  // leaves 10 pages, enough for either
  admission_.admit(turns_);
  EXPECT_EQ(pages(1), 6u + 8u);
  EXPECT_TRUE(waits(3));
  end(1);
  admission_.admit(turns_);
  EXPECT_FALSE(waits(3));
}

TEST_F(AdmissionTest, QueuesPromptsWhileDraftWaitsForRunningPrompt) {
  enter_and_run(1, 6);
  draft(1, kWideDraft);
  enter(2, 7);
  admission_.admit(turns_);
  EXPECT_EQ(pages(1), 6u) << "the running prompt keeps its pages";
  expect_kept(1);
  expect_kept(2);
  EXPECT_TRUE(enter(3, 1));
  EXPECT_TRUE(waits(3));
  admission_.admit(turns_);
  EXPECT_TRUE(waits(3));
  end(2);
  admission_.admit(turns_);
  EXPECT_EQ(pages(1), 6u + 8u);
  EXPECT_FALSE(waits(3));
  EXPECT_TRUE(enter(4, 1));
  EXPECT_FALSE(waits(4)) << "no draft is waiting";
}

TEST_F(AdmissionTest, DepartedDraftDoesNotBlockPrompts) {
  enter_and_run(1, 6);
  draft(1, kWideDraft);
  enter(2, 7);
  admission_.admit(turns_);
  end(1);
  EXPECT_TRUE(enter(3, 3));
  EXPECT_FALSE(waits(3));
}

TEST_F(AdmissionTest, GivenUpRunDoesNotBlockPrompts) {
  enter_and_run(1, 7);
  enter_and_run(2, 2);
  draft_plainly(1, false);
  draft(2, 1);
  enter(3, 7);
  admission_.admit(turns_);
  expect_kept(1);
  replies(1).is_full = true;
  EXPECT_TRUE(admission_.give_up_paused(turns_.runs, now_));
  EXPECT_TRUE(enter(4, 1));
  EXPECT_FALSE(waits(4));
}

TEST_F(AdmissionTest, ClearForgetsQueueAndWaitingDraft) {
  enter_and_run(1, 6);
  draft(1, kWideDraft);
  enter(2, 7);
  admission_.admit(turns_);
  enter(3, 1);
  ASSERT_EQ(admission_.waiting_count(), 1u);
  turns_ = {};
  for (const std::uint64_t id : {1, 2, 3}) sessions_.forget(id);
  admission_.clear();
  EXPECT_EQ(admission_.waiting_count(), 0u);
  EXPECT_TRUE(enter(4, 7));
  EXPECT_FALSE(waits(4));
}

TEST_F(AdmissionTest, HoldsRunForEconomyWhileClientReads) {
  enter_and_run(1, 1);
  RunTurn& run = draft(1, 0);
  run.economy_until = now_ + 100ms;
  replies(1).is_full = true;
  run.hold_for_economy(now_);
  EXPECT_FALSE(run.held_until);
  replies(1).is_full = false;
  run.hold_for_economy(now_);
  EXPECT_EQ(run.held_until, now_ + 100ms);
  EXPECT_FALSE(run.ready());
  EXPECT_FALSE(run.lacks_turn());
  run.end_hold(now_ + 40ms);
  EXPECT_TRUE(run.ready());
  EXPECT_EQ(run.held, 40ms);
  EXPECT_EQ(run.posted, now_ + 40ms);
  run.hold_for_economy(now_ + 100ms);
  EXPECT_FALSE(run.held_until);
}

TEST(TurnsTest, KeepOrderOfPromptsAndRuns) {
  Turns turns;
  const auto request = [](std::uint32_t round) {
    return Request{.client = {}, .session = nullptr, .round = round, .posted = {}};
  };
  const auto rounds = [&] {
    std::vector<std::uint32_t> visited;
    turns.for_each([&](auto&, auto turn) { visited.push_back(turn->round); });
    return visited;
  };
  using Rounds = std::vector<std::uint32_t>;
  turns.add(RunTurn{request(1), nullptr});
  turns.add(PromptTurn{request(2)});
  turns.add(PromptTurn{request(3)});
  turns.add(RunTurn{request(4), nullptr});
  EXPECT_EQ(rounds(), (Rounds{1, 2, 3, 4}));
  // A pass of the last three: one continues, one becomes a run, one ends.
  turns.for_each([&](auto& list, auto turn) {
    if (turn->round == 2) turns.requeue(list, turn);
    if (turn->round == 3) turns.add(RunTurn{request(5), nullptr});
    if (turn->round >= 3) list.erase(turn);
  });
  EXPECT_EQ(rounds(), (Rounds{1, 2, 5}));
  turns.for_each([&](auto& list, auto turn) { turns.requeue(list, turn); });
  EXPECT_EQ(rounds(), (Rounds{1, 2, 5}));
  turns.erase_if([](const Request& turn) { return turn.round == 2; });
  EXPECT_EQ(rounds(), (Rounds{1, 5}));
  EXPECT_EQ(turns.size(), 2u);
}

// The first draft lacks 4 of its 8 pages; each of the others holds 4.
class WideDraftTest : public AdmissionTest {
 protected:
  void SetUp() override {
    for (const std::uint64_t id : {1, 2, 3}) enter_and_run(id, 4);
    draft(1, kWideDraft);
  }
  void expect_only_given_up(std::uint64_t id) {
    admission_.admit(turns_);
    expect_given_up(id, "--kv-memory");
    EXPECT_EQ(refused(Refusal::session_unknown), 1u);
    EXPECT_EQ(sessions_.memory().evictions, 1u);
    expect_kept(1);
    EXPECT_EQ(pages(1), 4u + 8u);
  }
};

TEST_F(WideDraftTest, TakesPagesFromPausedRunFirst) {
  draft_plainly(2, true);
  draft(3, 1);
  expect_only_given_up(2);
  expect_kept(3);
}

TEST_F(WideDraftTest, TakesPagesFromLastPausedRun) {
  draft_plainly(2, true);
  draft_plainly(3, true);
  expect_only_given_up(3);
  expect_kept(2);
}

TEST_F(WideDraftTest, TakesPagesFromNewestDraftIfNoneIsPaused) {
  draft(2, 1);
  draft_plainly(3, false);
  expect_only_given_up(3);
  expect_kept(2);
}

TEST_F(WideDraftTest, TakesPagesFromDraftWhilePromptsWait) {
  draft(2, 1);
  draft(3, 1);
  enter(4, 7);
  expect_only_given_up(3);
  expect_kept(2);
  expect_kept(4);
  EXPECT_TRUE(waits(4));
}

TEST_F(AdmissionTest, TakesPagesFromRunsThatNeedNoPass) {
  for (const bool held : {false, true}) {
    enter_and_run(1, 7);
    enter_and_run(2, 4);
    if (held) {
      draft(1, 0).held_until = now_ + 1s;
    } else {
      draft_plainly(1, true);
    }
    draft(2, kWideDraft);
    admission_.admit(turns_);
    expect_given_up(1, "--kv-memory");
    EXPECT_EQ(pages(2), 4u + 8u);
    end(2);
    for (const std::uint64_t id : {1, 2}) replies_.erase(id);
  }
}

TEST_F(AdmissionTest, PromptTakesPagesFromLastPausedRunAfterPatience) {
  enter_and_run(1, 7);
  enter_and_run(2, 7);
  draft_plainly(1, true);
  draft_plainly(2, true);
  enter(3, 7);
  now_ += SessionStore::Limits().patience - 1ms;
  admission_.admit(turns_);
  EXPECT_TRUE(waits(3));
  EXPECT_EQ(turns_.size(), 3u);
  now_ += 1ms;
  admission_.admit(turns_);
  EXPECT_FALSE(waits(3));
  EXPECT_EQ(admission_.waiting_count(), 0u);
  expect_given_up(2, "--kv-memory");
  expect_kept(1);
}

TEST_F(AdmissionTest, PromptTakesNoPagesFromActiveRuns) {
  enter_and_run(1, 7);
  enter_and_run(2, 7);
  draft_plainly(1, false);
  draft_plainly(2, false);
  enter(3, 7);
  now_ += 1h;
  admission_.admit(turns_);
  EXPECT_TRUE(waits(3));
  expect_kept(1);
  expect_kept(2);
}

TEST_F(AdmissionTest, TakesSessionSlotFromLongestUnusedPausedRun) {
  const Instant start = now_;
  for (const std::uint64_t id : {1, 2, 3}) {
    enter_and_run(id, 1);
    draft_plainly(id, id != 3);
  }
  session(1).used = start + 2s;
  session(2).used = start + 1s;
  session(3).used = start;
  EXPECT_FALSE(admission_.give_up_paused(turns_.runs, start));
  EXPECT_TRUE(admission_.give_up_paused(turns_.runs, start + 2s));
  expect_given_up(2, "--max-sessions");
  expect_kept(1);
  EXPECT_FALSE(admission_.give_up_paused(turns_.runs, start + 1s));
  EXPECT_TRUE(admission_.give_up_paused(turns_.runs, start + 2s));
  expect_given_up(1, "--max-sessions");
  EXPECT_FALSE(admission_.give_up_paused(turns_.runs, start + 1h));
  expect_kept(3);
}

}  // namespace
}  // namespace edgedraft::server
