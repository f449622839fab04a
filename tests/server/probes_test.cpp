// Probe rows of a pass: their results, and that they leave no trace.
#include <gtest/gtest.h>

#include "server/proposers/lookahead.h"
#include "server/proposers/probing_methods.h"
#include "server/sessions/pass.h"
#include "tests/server/plain_answer.h"
#include "tests/server/toy_session.h"
#include "tests/support/toy_models.h"

namespace edgedraft::server {
namespace {

using testing::random_tokens;
using testing::random_tree;
using Tokens = std::vector<std::uint32_t>;

class ProbesTest : public testing::ToyTargetTest<160, 4> {
 protected:
  TargetSession session(DType kv_type = DType::f32) {
    return {decoder_, decoder_.make_cache(kv_type), kContext, is_end_};
  }
  Probes random_probes(std::uint64_t id) {
    const std::uint64_t nodes = 1 + random_.below(80);
    return {.rows = random_tree(random_, nodes),
            .asked_count = 1 + static_cast<std::uint32_t>(random_.below(nodes)),
            .id = id};
  }
  // The likeliest token after a text that is fed as a prompt.
  std::uint32_t likeliest_after(const Tokens& text) {
    KvCache cache = decoder_.make_cache();
    const std::uint32_t rows = decoder_.append(cache, text);
    Tokens token(1);
    backend_->argmax({.logits = decoder_.logits(rows - 1, 1), .tokens = token});
    return token.front();
  }
  static VerifiedPath pass(Decoder& decoder, TargetSession& target) {
    PassShare share{.session = &target, .rows_max = kMaskRowsMax};
    run_pass(decoder, std::span(&share, 1));
    return std::get<VerifiedPath>(share.outcome.value());
  }

  Random random_{3};
  std::function<bool(std::uint32_t)> is_end_ = testing::is_toy_end;
};

TEST_F(ProbesTest, GiveLikeliestTokenAfterTheirOwnPaths) {
  for (int repetition = 0; repetition < 20; ++repetition) {
    TargetSession target = session();
    const Tokens prompt = random_tokens(random_, 2 + random_.below(20));
    ASSERT_TRUE(target.prefill({.base_count = 0, .tokens = prompt}));
    const Tokens text(target.tokens().begin(), target.tokens().end());
    const Probes probes = random_probes(7);
    if (!target.begin(random_tree(random_, random_.below(20)), probes))
      continue;  // its answer has ended
    pass(decoder_, target);
    const ProbeAnswer& answer = target.probe_answer();
    ASSERT_EQ(answer.id, 7u);
    ASSERT_EQ(answer.tokens.size(), probes.asked_count);
    for (std::uint32_t i = 0; i < probes.asked_count; ++i) {
      Tokens path;
      std::uint32_t row = probes.rows.row_count() - probes.asked_count + i;
      for (; row != 0; row = probes.rows.parent(row)) path.push_back(probes.rows.token(row));
      Tokens asked = text;
      asked.insert(asked.end(), path.rbegin(), path.rend());
      EXPECT_EQ(answer.tokens[i], likeliest_after(asked));
    }
  }
}

// Chains at positions after the root are extended by the target's own greedy continuation.
TEST_F(ProbesTest, ExtendChainByTargetsContinuation) {
  const Tokens prompt{9, 8, 7};
  const Tokens expected = testing::plain_answer({decoder_, kContext, is_end_}, prompt, 24);
  ASSERT_GT(expected.size(), 20u);
  TargetSession target = session();
  ASSERT_TRUE(target.prefill({.base_count = 0, .tokens = prompt}));
  for (std::size_t at = 0; at + 10 < expected.size(); ++at) {
    Probes probes{.asked_count = 9, .id = at + 1};
    std::uint32_t row = 0;
    for (std::size_t j = 1; j < 10; ++j) row = probes.rows.add(expected[at + j], row);
    ASSERT_TRUE(target.begin(DraftTree(), probes));
    pass(decoder_, target);
    EXPECT_EQ(target.probe_answer().tokens,
              Tokens(expected.begin() + static_cast<std::ptrdiff_t>(at) + 2,
                     expected.begin() + static_cast<std::ptrdiff_t>(at) + 11));
  }
}

// Shared with others in one pass, for every type of keys and values. Outcomes, tokens and cache
// bits equal a session's without probes.
TEST_F(ProbesTest, LeaveNoTrace) {
  for (const DType kv_type : {DType::f32, DType::f16}) {
    for (int repetition = 0; repetition < 12; ++repetition) {
      constexpr std::size_t kSessions = 2;
      std::vector<TargetSession> asking;
      std::vector<TargetSession> silent;
      for (std::size_t i = 0; i < kSessions; ++i) {
        const Tokens prompt = random_tokens(random_, 1 + random_.below(30));
        const SamplingParams sampling{.temperature = repetition % 2 == 0 ? 0.0f : 0.9f, .seed = i};
        for (auto* sessions : {&asking, &silent}) {
          sessions->push_back(session(kv_type));
          const PrefillRequest request{.base_count = 0, .tokens = prompt, .sampling = sampling};
          ASSERT_TRUE(sessions->back().prefill(request));
        }
      }
      for (std::uint64_t cycle = 1; cycle < 8; ++cycle) {
        std::vector<PassShare> shares;
        std::vector<VerifiedPath> expected;
        for (std::size_t i = 0; i < kSessions; ++i) {
          const DraftTree tree = random_tree(random_, random_.below(12));
          if (!asking[i].begin(tree, random_probes(cycle))) continue;
          if (random_.below(8) == 0) asking[i].drop_probes();
          expected.push_back(silent[i].verify(tree).value());
          shares.push_back({.session = &asking[i], .rows_max = kMaskRowsMax});
        }
        run_pass(decoder_, shares);
        for (std::size_t s = 0; s < shares.size(); ++s) {
          ASSERT_TRUE(shares[s].outcome);
          const auto& path = std::get<VerifiedPath>(*shares[s].outcome);
          EXPECT_EQ(path.path, expected[s].path);
          EXPECT_EQ(path.next, expected[s].next);
        }
        for (std::size_t i = 0; i < kSessions; ++i) {
          ASSERT_EQ(asking[i].valid_count(), silent[i].valid_count());
          ASSERT_TRUE(std::ranges::equal(asking[i].tokens(), silent[i].tokens()));
        }
      }
    }
  }
}

TEST_F(ProbesTest, GiveNoAnswerUnlessRun) {
  TargetSession target = session();
  ASSERT_TRUE(target.prefill({.base_count = 0, .tokens = Tokens{9, 8, 7}}));
  ASSERT_TRUE(target.begin(DraftTree(), random_probes(1)));
  pass(decoder_, target);
  EXPECT_EQ(target.probe_answer().id, 1u);
  const std::uint32_t valid = target.valid_count();
  ASSERT_TRUE(target.begin(DraftTree(), random_probes(2)));
  target.abandon();
  EXPECT_EQ(target.valid_count(), valid);
  EXPECT_NE(target.probe_answer().id, 2u);
  ASSERT_TRUE(target.begin(DraftTree(), random_probes(3)));
  target.drop_probes();
  EXPECT_EQ(target.pending_rows(), 1u);
  pass(decoder_, target);
  EXPECT_NE(target.probe_answer().id, 3u);
}

class ProbingMethodTest : public ProbesTest,
                          public ::testing::WithParamInterface<std::string_view> {
 protected:
  std::unique_ptr<SessionProposer> proposer() {
    return probing_source(*find_probing_method(GetParam()), is_end_).make(nullptr);
  }
};

// Up to the last position of the context, with the maximum number of rows and with fewer.
TEST_P(ProbingMethodTest, AnswersMatchPlainDecodingToContextEnd) {
  std::uint32_t accepted = 0;
  for (const std::uint32_t rows_max : {255u, 60u, 17u}) {
    for (std::uint64_t seed = 0; seed < 6; ++seed) {
      const Tokens prompt = random_tokens(random_, 4);
      const SamplingParams sampling{.temperature = seed % 3 == 0 ? 0.0f : 0.8f, .seed = seed};
      const Tokens expected =
          testing::plain_answer({decoder_, kContext, is_end_}, prompt, kContext, sampling);
      TargetSession target = session();
      const auto first =
          target.prefill({.base_count = 0, .tokens = prompt, .sampling = sampling}).value();
      const auto own = proposer();
      Finish finish = first.finish;
      while (finish == Finish::none) {
        const Proposal proposal = own->propose(
            target, {.tree = {.breadth = 8, .depth = 6, .nodes = 62}, .probe_rows = rows_max});
        ASSERT_LE(proposal.probes.rows.node_count(), rows_max);
        ASSERT_TRUE(target.begin(proposal.tree, proposal.probes));
        const VerifiedPath path = pass(decoder_, target);
        accepted += static_cast<std::uint32_t>(path.path.size());
        finish = path.finish;
      }
      EXPECT_TRUE(std::ranges::equal(target.tokens().subspan(prompt.size()), expected));
    }
  }
  EXPECT_GT(accepted, 0u);
}

// A client rolls its answer back to an earlier token, or sends another prompt.
TEST_P(ProbingMethodTest, FollowsSessionThroughRollbacks) {
  TargetSession target = session();
  const auto own = proposer();
  const ProposalLimits limits{.tree = {.breadth = 8, .depth = 4, .nodes = 30}, .probe_rows = 70};
  Tokens text = random_tokens(random_, 20);
  for (int turn = 0; turn < 30; ++turn) {
    const std::size_t kept = random_.below(text.size());
    text.resize(kept);
    text = testing::joined(text, random_tokens(random_, 1 + random_.below(5)));
    const auto base = turn == 0 ? 0u : static_cast<std::uint32_t>(kept);
    const auto first =
        target.prefill({.base_count = base, .tokens = std::span(text).subspan(base)}).value();
    TargetSession same = session();
    ASSERT_EQ(same.prefill({.base_count = 0, .tokens = text}).value().next, first.next);
    Finish finish = first.finish;
    for (int step = 0; step < 4 && finish == Finish::none; ++step) {
      const Proposal proposal = own->propose(target, limits);
      ASSERT_TRUE(target.begin(proposal.tree, proposal.probes));
      if (random_.below(4) == 0) {
        target.abandon();
        ASSERT_TRUE(target.begin(DraftTree()));
      }
      finish = pass(decoder_, target).finish;
    }
    text.assign(target.tokens().begin(), target.tokens().end());
    while (same.tokens().size() < text.size()) ASSERT_TRUE(same.verify(DraftTree()));
    ASSERT_TRUE(std::ranges::equal(same.tokens().first(text.size()), text));
  }
}

INSTANTIATE_TEST_SUITE_P(Methods, ProbingMethodTest, ::testing::Values("lookahead", "core"),
                         [](const auto& method) { return std::string(method.param); });

}  // namespace
}  // namespace edgedraft::server
