#include "server/sessions/pass.h"

#include <gtest/gtest.h>

#include <algorithm>

#include "tests/server/toy_session.h"
#include "tests/support/toy_models.h"

namespace edgedraft::server {
namespace {

using testing::random_tokens;
using testing::random_tree;
using testing::ToyDecoder;
using Tokens = std::vector<std::uint32_t>;

class PassTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kContext = 512;

  TargetSession session() { return {decoder_, kContext, testing::is_toy_end}; }

  Random random_{7};
  ToyDecoder toy_{1};
  std::unique_ptr<Backend> backend_ = make_cpu_backend({.threads = 2});
  Decoder decoder_{*backend_, toy_.config, toy_.tensors, kContext};
};

// Requests have the same outcomes in shared passes as alone, now and later.
TEST_F(PassTest, SharedPassesGiveSameOutcomesAsSeparateOnes) {
  constexpr std::size_t kSessions = 5;
  for (int repetition = 0; repetition < 10; ++repetition) {
    std::vector<TargetSession> together;
    std::vector<TargetSession> alone;
    std::vector<Tokens> prompts;
    for (std::size_t i = 0; i < kSessions; ++i) {
      together.push_back(session());
      alone.push_back(session());
      prompts.push_back(random_tokens(random_, 1 + static_cast<std::uint32_t>(random_.below(200))));
    }
    // Some greedy, some sampled; prompts of any length in parts of any length.
    std::vector<PassShare> shares;
    std::vector<PrefillOutcome> expected;
    for (std::size_t i = 0; i < kSessions; ++i) {
      const PrefillRequest request{
          .base_count = 0,
          .tokens = prompts[i],
          .provisional_count = static_cast<std::uint32_t>(random_.below(prompts[i].size())),
          .sampling = {.temperature = i % 2 == 0 ? 0.0f : 1.0f, .seed = i}};
      expected.push_back(alone[i].prefill(request).value());
      ASSERT_TRUE(together[i].begin(request));
    }
    std::vector<bool> done(kSessions);
    while (std::find(done.begin(), done.end(), false) != done.end()) {
      shares.clear();
      std::vector<std::size_t> who;
      std::uint32_t left = kMaskRowsMax;
      for (std::size_t i = 0; i < kSessions; ++i) {
        const auto rows = std::min(left, 1 + static_cast<std::uint32_t>(random_.below(60)));
        if (done[i] || rows == 0) continue;
        left -= rows;
        who.push_back(i);
        shares.push_back({.session = &together[i], .rows_max = rows, .outcome = {}});
      }
      run_pass(decoder_, shares);
      for (std::size_t s = 0; s < shares.size(); ++s) {
        if (!shares[s].outcome) continue;
        const auto& got = std::get<PrefillOutcome>(*shares[s].outcome);
        EXPECT_EQ(got.next, expected[who[s]].next);
        EXPECT_EQ(got.accepted_count, expected[who[s]].accepted_count);
        EXPECT_EQ(got.finish, expected[who[s]].finish);
        done[who[s]] = true;
      }
    }
    // Drafts for all sessions, with a new prompt for one of them.
    for (int cycle = 0; cycle < 5; ++cycle) {
      shares.clear();
      std::vector<std::size_t> who;
      std::vector<VerifiedPath> paths;
      for (std::size_t i = 0; i < kSessions; ++i) {
        const DraftTree tree = random_tree(random_, static_cast<std::uint32_t>(random_.below(40)));
        if (!together[i].begin(tree)) continue;  // its answer has ended
        paths.push_back(alone[i].verify(tree).value());
        who.push_back(i);
        shares.push_back({.session = &together[i], .rows_max = tree.row_count(), .outcome = {}});
      }
      if (shares.empty()) break;
      run_pass(decoder_, shares);
      for (std::size_t s = 0; s < shares.size(); ++s) {
        const auto& got = std::get<VerifiedPath>(*shares[s].outcome);
        EXPECT_EQ(got.path, paths[s].path);
        EXPECT_EQ(got.next, paths[s].next);
        const auto a = together[who[s]].tokens();
        const auto b = alone[who[s]].tokens();
        EXPECT_TRUE(std::equal(a.begin(), a.end(), b.begin(), b.end()));
      }
    }
  }
}

TEST(SearchedPathTest, DividesLimitEquallyWithMinimumOfOne) {
  EXPECT_EQ(searched_path_max(0), 16u);
  EXPECT_EQ(searched_path_max(4), 16u);
  EXPECT_EQ(searched_path_max(5), 12u);
  EXPECT_EQ(searched_path_max(16), 4u);
  EXPECT_EQ(searched_path_max(64), 1u);
  EXPECT_EQ(searched_path_max(256), 1u);
}

// If each token of a path needs a vocabulary search, sessions that share a pass follow shorter
// paths than a session alone. Their answers are the same.
TEST_F(PassTest, SearchingSessionsSharePathLimit) {
  constexpr std::size_t kDrafted = 12;
  const auto never = [](std::uint32_t) { return false; };
  const Tokens prompt = random_tokens(random_, 20);
  const PrefillRequest request{.base_count = 0,
                               .tokens = prompt,
                               .sampling = {.temperature = 1.0f, .top_p = 0.9f, .seed = 5}};
  TargetSession writer(decoder_, kContext, never);
  Tokens answer{writer.prefill(request).value().next};
  while (answer.size() < kDrafted + 2) answer.push_back(writer.verify(DraftTree()).value().next);
  DraftTree draft;
  for (std::uint32_t i = 0; i < kDrafted; ++i) draft.add(answer[i + 1], i);

  for (const std::size_t count : {1, 4, 8, 16}) {
    const std::size_t followed = std::min(kDrafted, std::size_t{searched_path_max(count)});
    std::vector<TargetSession> sessions;
    for (std::size_t i = 0; i < count; ++i) {
      sessions.emplace_back(decoder_, kContext, never);
      ASSERT_TRUE(sessions.back().prefill(request));
      ASSERT_TRUE(sessions.back().begin(draft));
    }
    std::vector<PassShare> shares;
    for (TargetSession& s : sessions) {
      shares.push_back({.session = &s, .rows_max = draft.row_count()});
    }
    run_pass(decoder_, shares);
    for (const PassShare& share : shares) {
      ASSERT_TRUE(share.outcome);
      const auto& path = std::get<VerifiedPath>(*share.outcome);
      EXPECT_EQ(path.path.size(), followed) << count;
      EXPECT_EQ(path.next, answer[followed + 1]);
    }
  }
}

TEST_F(PassTest, AbandonedDraftLeavesNoTrace) {
  TargetSession abandoned = session();
  TargetSession other = session();
  const Tokens prompt = random_tokens(random_, 20);
  abandoned.prefill({.base_count = 0, .tokens = prompt}).value();
  other.prefill({.base_count = 0, .tokens = prompt}).value();
  const DraftTree tree = random_tree(random_, 9);
  ASSERT_TRUE(abandoned.begin(random_tree(random_, 30)));
  abandoned.abandon();
  EXPECT_FALSE(abandoned.busy());
  const VerifiedPath a = abandoned.verify(tree).value();
  const VerifiedPath b = other.verify(tree).value();
  EXPECT_EQ(a.path, b.path);
  EXPECT_EQ(a.next, b.next);
}

TEST_F(PassTest, AbandonedPromptKeepsBase) {
  TargetSession target = session();
  const Tokens first = random_tokens(random_, 20);
  const Tokens second = random_tokens(random_, 150);
  target.prefill({.base_count = 0, .tokens = first}).value();
  ASSERT_TRUE(target.begin({.base_count = 10, .tokens = second}));
  PassShare share{.session = &target, .rows_max = 64, .outcome = {}};
  run_pass(decoder_, std::span(&share, 1));
  ASSERT_FALSE(share.outcome);
  target.abandon();
  // No token is known at the base, so a draft has no root.
  EXPECT_EQ(target.begin(random_tree(random_, 3)).error().code, Errc::protocol);
  const auto again = target.prefill({.base_count = 10, .tokens = second}).value();
  TargetSession fresh = session();
  const Tokens whole = testing::joined({first.begin(), first.begin() + 10}, second);
  EXPECT_EQ(again.next, fresh.prefill({.base_count = 0, .tokens = whole}).value().next);
}

// A draft runs whole or not at all, so cutting one would be the planner's error.
TEST_F(PassTest, FaultCostsOnlyItsSession) {
  const Tokens prompt = random_tokens(random_, 40);
  TargetSession first = session();
  TargetSession faulty = session();
  TargetSession last = session();
  TargetSession alone = session();
  for (TargetSession* s : {&first, &faulty, &last, &alone}) {
    ASSERT_TRUE(s->prefill({.base_count = 0, .tokens = prompt, .sampling = {}}));
  }
  const DraftTree tree = random_tree(random_, 5);
  const VerifiedPath expected = alone.verify(tree).value();
  std::vector<PassShare> shares;
  for (TargetSession* s : {&first, &faulty, &last}) {
    ASSERT_TRUE(s->begin(tree));
    shares.push_back({.session = s, .rows_max = s == &faulty ? 5u : 6u});
  }
  EXPECT_EQ(run_pass(decoder_, shares), 12u);
  EXPECT_TRUE(shares[1].fault);
  EXPECT_FALSE(shares[1].outcome);
  for (const std::size_t i : {0u, 2u}) {
    EXPECT_FALSE(shares[i].fault);
    ASSERT_TRUE(shares[i].outcome);
    const auto& path = std::get<VerifiedPath>(*shares[i].outcome);
    EXPECT_EQ(path.path, expected.path);
    EXPECT_EQ(path.next, expected.next);
  }
  EXPECT_EQ(run_pass(decoder_, std::span(shares).subspan(1, 1)), 0u) << "no session is left to run";
  EXPECT_TRUE(shares[1].fault);
}

}  // namespace
}  // namespace edgedraft::server
