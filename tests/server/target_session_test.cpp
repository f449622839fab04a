#include "server/sessions/target_session.h"

#include <gtest/gtest.h>

#include "server/sessions/pass.h"
#include "tests/server/toy_session.h"
#include "tests/support/toy_models.h"

namespace edgedraft::server {
namespace {

using testing::joined;
using testing::kToyEndToken;
using testing::kToyVocabulary;
using testing::ToyDecoder;
using Tokens = std::vector<std::uint32_t>;

// Returns any tree for the session's tokens.
using Proposer = std::function<DraftTree(std::span<const std::uint32_t> tokens)>;

class TargetSessionTest : public testing::ToyTargetTest<96, 6> {
 protected:
  struct Answer {
    Tokens tokens;  // after the prompt
    Finish finish = Finish::none;
    std::uint32_t passes = 0;

    bool operator==(const Answer& other) const {
      return tokens == other.tokens && finish == other.finish;
    }
  };

  TargetSession session() { return {decoder_, kContext, testing::is_toy_end}; }

  Answer generate(const Tokens& prompt, const SamplingParams& sampling, const Proposer& propose,
                  const Constraints& constraints = {}) {
    TargetSession target = session();
    const auto first = target
                           .prefill({.base_count = 0,
                                     .tokens = prompt,
                                     .sampling = sampling,
                                     .filter = filter_for(constraints)})
                           .value();
    Answer answer{.tokens = {first.next}, .finish = first.finish};
    while (answer.finish == Finish::none) {
      const DraftTree tree = propose(target.tokens());
      const VerifiedPath path = target.verify(tree).value();
      for (const std::uint32_t row : path.path) answer.tokens.push_back(tree.token(row));
      answer.tokens.push_back(path.next);
      answer.finish = path.finish;
      ++answer.passes;
    }
    return answer;
  }

  Answer plain(const Tokens& prompt, const SamplingParams& sampling,
               const Constraints& constraints = {}) {
    return generate(
        prompt, sampling, [](auto) { return DraftTree(); }, constraints);
  }

  // Tokens are letters in rotation: "a" is 3, "b" is 4.
  static std::string letter(std::uint32_t token) {
    return std::string(1, static_cast<char>('a' + (token - 3) % 26));
  }
  static std::shared_ptr<ConstraintFilter> filter_for(const Constraints& constraints) {
    if (constraints.empty()) return nullptr;
    std::vector<std::string> texts(kToyVocabulary);
    for (std::uint32_t t = 3; t < kToyVocabulary; ++t) texts[t] = letter(t);
    return std::make_shared<ConstraintFilter>(
        ConstraintFilter::make(constraints, std::make_shared<const TokenTexts>(
                                                std::move(texts), Tokens{kToyEndToken}, false))
            .value());
  }
  static std::string text(const Tokens& tokens) {
    std::string text;
    for (const std::uint32_t token : tokens) {
      if (token >= 3) text += letter(token);
    }
    return text;
  }

  // Trees of `nodes` random nodes. With `truth`, the right continuation, at a random depth and
  // place, so that paths of every length are accepted.
  static Proposer random_trees(std::uint64_t seed, std::uint32_t nodes, const Tokens& truth) {
    auto random = std::make_shared<Random>(seed);
    return [=](std::span<const std::uint32_t> tokens) {
      DraftTree tree;
      const std::size_t good = random->below(8);
      std::uint32_t parent = 0;
      std::size_t at = tokens.size();
      std::size_t placed = 0;
      while (tree.node_count() < nodes) {
        if (placed < good && at < truth.size() && random->below(2) == 0) {
          parent = tree.add(truth[at++], parent);
          ++placed;
        } else {
          tree.add(static_cast<std::uint32_t>(random->below(kToyVocabulary)),
                   static_cast<std::uint32_t>(random->below(tree.row_count())));
        }
      }
      return tree;
    };
  }

  void expect_lossless(std::uint64_t seed, const SamplingParams& sampling) {
    Random random(seed);
    const Tokens prompt = testing::random_tokens(random, 1 + random.below(20));
    const Answer expected = plain(prompt, sampling);
    const Tokens truth = joined(prompt, expected.tokens);
    for (const std::uint32_t nodes : {1u, 4u, 62u, 255u}) {
      const Answer answer = generate(prompt, sampling, random_trees(seed + nodes, nodes, truth));
      EXPECT_TRUE(answer == expected) << "seed " << seed << ", nodes " << nodes;
      if (expected.tokens.size() > 10) {
        EXPECT_LT(answer.passes, expected.passes);
      }
    }
  }
};

TEST_F(TargetSessionTest, AnyTreeLeavesGreedyAnswerUnchanged) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) expect_lossless(seed, {});
}

TEST_F(TargetSessionTest, AnyTreeLeavesSampledAnswerUnchanged) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    expect_lossless(seed, {.temperature = 0.8f, .top_k = 40, .top_p = 0.95f, .seed = seed});
    expect_lossless(seed, {.temperature = 1.0f, .min_p = 0.02f, .seed = seed});
  }
}

// Constraints apply to any tree as to plain decoding.
TEST_F(TargetSessionTest, AnyTreeLeavesConstrainedAnswerUnchanged) {
  const Tokens prompt{5, 6, 7, 8};
  const std::uint32_t begin = 4;
  const std::vector<Constraints> all = {
      {.answer_begin = begin, .grammar = "root ::= ([a-m] [n-z]){5,20}"},
      {.answer_begin = begin, .grammar = "root ::= \"x\" root \"y\" | [a-f]{3}"},
      {.answer_begin = begin, .presence_penalty = 1.5f, .frequency_penalty = 0.7f},
      {.answer_begin = begin, .biases = {{.token = 9, .bias = 4.0f}, {.token = 2, .bias = -50.0f}}},
      {.answer_begin = begin, .stops = {"ab", "q", "mn"}},
      {.answer_begin = begin,
       .stops = {"zz"},
       .frequency_penalty = 0.5f,
       .grammar = "root ::= [m-z]{1,30}"}};
  int changed = 0;
  for (const float temperature : {0.0f, 0.9f, 1.3f}) {
    for (const Constraints& constraints : all) {
      const SamplingParams sampling{.temperature = temperature, .seed = 12};
      const Answer expected = plain(prompt, sampling, constraints);
      changed += expected.tokens != plain(prompt, sampling).tokens ? 1 : 0;
      const Tokens truth = joined(prompt, expected.tokens);
      for (std::uint64_t seed = 0; seed < 6; ++seed) {
        const Answer drafted =
            generate(prompt, sampling, random_trees(seed, 24, truth), constraints);
        EXPECT_EQ(drafted, expected);
      }
    }
  }
  EXPECT_GT(changed, 12) << "of 18 answers";
}

// They come from the target's raw logits, whatever tree the token was verified in and whatever
// constrains it.
TEST_F(TargetSessionTest, LogProbabilitiesMatchPlainDecoding) {
  constexpr std::uint32_t kPerToken = 4;
  const Tokens prompt{5, 6, 7, 8};
  for (const float temperature : {0.0f, 1.1f}) {
    for (const Constraints& constraints :
         {Constraints{}, Constraints{.answer_begin = 4, .presence_penalty = 1.5f}}) {
      const SamplingParams sampling{.temperature = temperature, .seed = 5};
      const Answer expected = plain(prompt, sampling, constraints);
      const Tokens truth = joined(prompt, expected.tokens);
      const auto told_by = [&](const Proposer& propose) {
        TargetSession target = session();
        Finish finish = target
                            .prefill({.base_count = 0,
                                      .tokens = prompt,
                                      .sampling = sampling,
                                      .filter = filter_for(constraints),
                                      .logprobs_per_token = kPerToken})
                            .value()
                            .finish;
        std::vector<Logprob> told = target.take_logprobs();
        while (finish == Finish::none) {
          finish = target.verify(propose(target.tokens())).value().finish;
          const auto more = target.take_logprobs();
          told.insert(told.end(), more.begin(), more.end());
        }
        return told;
      };
      const auto told = told_by([](auto) { return DraftTree(); });
      ASSERT_EQ(told.size(), expected.tokens.size() * kPerToken);
      for (std::size_t i = 0; i < expected.tokens.size(); ++i) {
        const auto own = std::span(told).subspan(i * kPerToken, kPerToken);
        EXPECT_EQ(own[0].token, expected.tokens[i]);
        EXPECT_GE(own[1].value, own[0].value);
        EXPECT_GE(own[1].value, own[2].value);
        if (temperature == 0.0f && constraints.empty()) {
          EXPECT_EQ(own[0], own[1]);
        }
      }
      EXPECT_EQ(told_by(random_trees(3, 24, truth)), told);
    }
  }
}

TEST_F(TargetSessionTest, ConstrainedAnswersMatchGrammarAndEndAtStops) {
  for (std::uint64_t seed = 0; seed < 20; ++seed) {
    const SamplingParams sampling{.temperature = 1.0f, .seed = seed};
    const Answer in_grammar =
        plain({5, 6}, sampling, {.answer_begin = 2, .grammar = "root ::= ([a-c] [x-z]){2,4}"});
    EXPECT_EQ(in_grammar.finish, Finish::end_token);
    const std::string text_in_grammar = text(in_grammar.tokens);
    EXPECT_TRUE(text_in_grammar.size() >= 4 && text_in_grammar.size() <= 8) << text_in_grammar;
    for (std::size_t i = 0; i < text_in_grammar.size(); ++i) {
      EXPECT_TRUE(i % 2 == 0 ? text_in_grammar[i] <= 'c' : text_in_grammar[i] >= 'x');
    }
    // A stop ends the answer with the token that completes it; the answer is unchanged up to there.
    const Answer whole = plain({5, 6}, sampling);
    const std::string all = text(whole.tokens);
    const std::string stop = all.substr(all.size() / 2, 2);
    const Answer stopped = plain({5, 6}, sampling, {.answer_begin = 2, .stops = {"??", stop}});
    EXPECT_EQ(text(stopped.tokens), all.substr(0, all.find(stop) + stop.size()));
    EXPECT_EQ(stopped.finish, Finish::stop);
  }
}

// A request during an answer, as after an outage, carries the answer's start.
TEST_F(TargetSessionTest, ConstraintsCountFromAnswerBegin) {
  const SamplingParams sampling{.temperature = 1.0f, .seed = 4};
  const Constraints constraints{
      .answer_begin = 2, .frequency_penalty = 1.0f, .grammar = "root ::= ([a-m] [n-z]){6}"};
  const Answer whole = plain({5, 6}, sampling, constraints);
  ASSERT_GE(whole.tokens.size(), 8u);
  for (std::size_t given = 1; given < 8; ++given) {
    const Tokens prompt = joined({5, 6}, std::span(whole.tokens).first(given));
    const Answer rest = plain(prompt, sampling, constraints);
    EXPECT_EQ(rest.tokens, Tokens(whole.tokens.begin() + given, whole.tokens.end()));
  }
}

TEST_F(TargetSessionTest, AnswersEndAtEndTokenOrContextEnd) {
  std::uint32_t ended = 0;
  std::uint32_t filled = 0;
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    const Tokens prompt{5, 6, static_cast<std::uint32_t>(7 + seed)};
    const Answer answer = plain(prompt, {.temperature = 1.0f, .seed = seed});
    if (answer.finish == Finish::end_token) {
      ++ended;
      EXPECT_EQ(answer.tokens.back(), kToyEndToken);
    } else {
      ++filled;
      EXPECT_EQ(prompt.size() + answer.tokens.size(), kContext);
    }
  }
  EXPECT_GT(ended, 0u);
  EXPECT_GT(filled, 0u);
}

// A session that ran ahead is rolled back to the client's tokens and gives the same answer again.
TEST_F(TargetSessionTest, RolledBackSessionAnswersLikeFreshOne) {
  const Tokens prompt{9, 10, 11, 12};
  const Answer expected = plain(prompt, {});
  ASSERT_GT(expected.tokens.size(), 6u);
  const Tokens known = joined(prompt, std::span(expected.tokens).first(5));

  TargetSession target = session();
  ASSERT_TRUE(target.prefill({.base_count = 0, .tokens = known, .sampling = {}}));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(target.verify(DraftTree()));
  for (std::uint32_t base = static_cast<std::uint32_t>(known.size()); base > 0; --base) {
    const auto outcome = target.prefill(
        {.base_count = base, .tokens = std::span(known).subspan(base), .sampling = {}});
    ASSERT_TRUE(outcome) << outcome.error().message;
    EXPECT_EQ(outcome->next, expected.tokens[5]);
    EXPECT_EQ(target.valid_count(), known.size());
  }
}

TEST_F(TargetSessionTest, CorrectsProvisionalTokensFromFirstDifference) {
  const Tokens prompt{9, 10, 11, 12};
  const SamplingParams sampling{.temperature = 0.9f, .seed = 5};
  const Answer expected = plain(prompt, sampling);
  ASSERT_GT(expected.tokens.size(), 8u);
  for (std::uint32_t right = 0; right <= 7; ++right) {
    Tokens written(expected.tokens.begin(), expected.tokens.begin() + 8);
    if (right < 7) written[right] = (written[right] + 1) % kToyVocabulary;
    const Tokens all = joined(prompt, written);
    TargetSession target = session();
    const auto outcome =
        target
            .prefill({.base_count = 0, .tokens = all, .provisional_count = 8, .sampling = sampling})
            .value();
    const std::uint32_t accepted = right < 7 ? right : 8;
    EXPECT_EQ(outcome.accepted_count, accepted);
    EXPECT_EQ(outcome.next, expected.tokens[accepted]);
    EXPECT_EQ(target.tokens().size(), prompt.size() + accepted + 1);
    EXPECT_EQ(target.valid_count() + 1, target.tokens().size());
  }
}

// Tokens that the session has already chosen are not chosen again. Exceptions: the sampling
// differed, the target did not choose them, or their keys and values were dropped.
TEST_F(TargetSessionTest, ReportsDecidedTokensWithoutPass) {
  const Tokens prompt{5, 9, 12};
  const Tokens answer = plain(prompt, {}).tokens;
  ASSERT_GT(answer.size(), 6u);
  const auto gone_on = [&] {
    TargetSession target = session();
    EXPECT_TRUE(target.prefill({.base_count = 0, .tokens = prompt, .sampling = {}}));
    for (int i = 0; i < 5; ++i) EXPECT_TRUE(target.verify(DraftTree()));
    return target;
  };
  // One token of the answer is known, and two more were written offline; the second is wrong.
  const Tokens offline{answer[1], answer[2] == 4 ? 5u : 4u};
  const PrefillRequest request{
      .base_count = 4, .tokens = offline, .provisional_count = 2, .sampling = {}};
  Tokens rest;
  {
    TargetSession target = gone_on();
    const auto outcome = target.decided(request, rest);
    ASSERT_TRUE(outcome);
    EXPECT_EQ(outcome->accepted_count, 1u);
    EXPECT_EQ(outcome->next, answer[2]);
    EXPECT_EQ(rest, Tokens(answer.begin() + 3, answer.begin() + 6));
    EXPECT_EQ(target.verify(DraftTree())->next, answer[3]) << "continues after the decided tokens";
  }
  {
    TargetSession target = gone_on();
    PrefillRequest sampled = request;
    sampled.sampling = {.temperature = 1.0f, .seed = 3};
    EXPECT_FALSE(target.decided(sampled, rest)) << "different sampling";
    const Tokens all(answer.begin() + 1, answer.begin() + 6);
    EXPECT_FALSE(target.decided(
        {.base_count = 4, .tokens = all, .provisional_count = 5, .sampling = {}}, rest))
        << "the next token is not decided yet";
    EXPECT_FALSE(target.decided(
        {.base_count = 2, .tokens = offline, .provisional_count = 2, .sampling = {}}, rest))
        << "the prompt's last token was given, not chosen";
    PrefillRequest given = request;
    given.provisional_count = 1;
    EXPECT_FALSE(target.decided(given, rest)) << "given tokens need a pass";
    EXPECT_TRUE(target.decided(request, rest));
  }
  {
    TargetSession target = gone_on();
    const Tokens more{6, 7};
    ASSERT_TRUE(target.begin({.base_count = 9, .tokens = more, .sampling = {}}));
    target.drop_cache();
    target.abandon();
    EXPECT_FALSE(target.decided(request, rest)) << "the KV cache was dropped";
  }
}

// The previous request wanted log probabilities; this one does not and gets none.
TEST_F(TargetSessionTest, DecidedAnswerEndsEarlierLogProbabilities) {
  const Tokens prompt{5, 9, 12};
  const Tokens answer = plain(prompt, {}).tokens;
  ASSERT_GT(answer.size(), 6u);
  TargetSession target = session();
  ASSERT_TRUE(
      target.prefill({.base_count = 0, .tokens = prompt, .sampling = {}, .logprobs_per_token = 2}));
  for (int i = 0; i < 3; ++i) ASSERT_TRUE(target.verify(DraftTree()));
  EXPECT_FALSE(target.take_logprobs().empty());
  ASSERT_TRUE(target.verify(DraftTree()));
  const Tokens offline{answer[1]};
  Tokens rest;
  const auto outcome = target.decided(
      {.base_count = 4, .tokens = offline, .provisional_count = 1, .sampling = {}}, rest);
  ASSERT_TRUE(outcome);
  EXPECT_TRUE(target.take_logprobs().empty());
  ASSERT_TRUE(target.verify(DraftTree()));
  EXPECT_TRUE(target.take_logprobs().empty());
}

TEST_F(TargetSessionTest, ChecksLongProvisionalTextAcrossChunks) {
  ToyDecoder toy(6);
  Decoder decoder(*backend_, toy.config, toy.tensors, 700);
  const auto never = [](std::uint32_t) { return false; };
  TargetSession writer(decoder, 700, never);
  const Tokens prompt{9, 10};
  Tokens all = prompt;
  all.push_back(writer.prefill({.base_count = 0, .tokens = prompt, .sampling = {}})->next);
  while (all.size() < 600) all.push_back(writer.verify(DraftTree())->next);
  for (const std::uint32_t wrong : {0u, 255u, 256u, 300u, 512u, 598u}) {
    Tokens changed = all;
    if (wrong > 1) changed[wrong] = (changed[wrong] + 1) % kToyVocabulary;
    TargetSession target(decoder, 700, never);
    const auto outcome = target.prefill(
        {.base_count = 0, .tokens = changed, .provisional_count = 598, .sampling = {}});
    EXPECT_EQ(outcome->accepted_count, wrong > 1 ? wrong - 2 : 598);
    if (wrong > 1) {
      EXPECT_EQ(outcome->next, all[wrong]);
    }
  }
}

// If each token takes a vocabulary search, other requests wait meanwhile.
TEST_F(TargetSessionTest, LimitsSearchedTokensOfCheckPerPass) {
  const Tokens prompt{9, 10, 11};
  const auto never = [](std::uint32_t) { return false; };
  const SamplingParams filtered{.temperature = 1.0f, .top_p = 0.5f, .seed = 3};
  const SamplingParams raced{.temperature = 1.0f, .seed = 3};
  for (const SamplingParams& sampling : {filtered, raced, SamplingParams()}) {
    const bool searches = sampling == filtered;
    Tokens text = prompt;
    TargetSession writer(decoder_, kContext, never);
    text.push_back(writer.prefill({.base_count = 0, .tokens = prompt, .sampling = sampling})->next);
    while (text.size() < 50) text.push_back(writer.verify(DraftTree())->next);
    TargetSession target(decoder_, kContext, never);
    ASSERT_TRUE(target.begin(PrefillRequest{
        .base_count = 0, .tokens = text, .provisional_count = 47, .sampling = sampling}));
    ASSERT_TRUE(target.reserve());
    PassShare share{.session = &target, .rows_max = kMaskRowsMax, .outcome = {}};
    std::vector<std::uint32_t> rows;
    while (!share.outcome) rows.push_back(run_pass(decoder_, std::span(&share, 1)));
    EXPECT_EQ(rows, searches ? (std::vector<std::uint32_t>{18, 16, 16}) : std::vector{50u});
    EXPECT_EQ(std::get<PrefillOutcome>(*share.outcome).accepted_count, 47u);
  }
}

// A returning client proves with the hash that it holds the same tokens.
TEST_F(TargetSessionTest, HashCoversCurrentTokens) {
  TargetSession target = session();
  const Tokens prompt{9, 10, 11, 12};
  ASSERT_TRUE(target.prefill({.base_count = 0, .tokens = prompt, .sampling = {}}));
  EXPECT_EQ(target.hash_of(4), token_hash(prompt));
  ASSERT_TRUE(target.verify(DraftTree()));
  EXPECT_EQ(target.hash_of(4), token_hash(prompt));
  EXPECT_EQ(target.hash_of(6), token_hash(target.tokens()));
  EXPECT_EQ(target.hash_of(0), token_hash({}));

  EXPECT_EQ(target.hash_of(4), token_hash(prompt));
  const Tokens other{13, 14};
  ASSERT_TRUE(target.prefill({.base_count = 2, .tokens = other, .sampling = {}}));
  EXPECT_EQ(target.hash_of(4), token_hash(Tokens{9, 10, 13, 14}));
  ASSERT_TRUE(target.begin({.base_count = 3, .tokens = other, .sampling = {}}));
  target.abandon();
  ASSERT_TRUE(target.prefill({.base_count = 3, .tokens = prompt, .sampling = {}}));
  EXPECT_EQ(target.hash_of(4), token_hash(Tokens{9, 10, 13, 9}));
}

TEST_F(TargetSessionTest, RefusesInvalidRequestsAndStaysUnchanged) {
  TargetSession target = session();
  EXPECT_EQ(target.verify(DraftTree()).error().code, Errc::protocol);
  const auto code_of = [&](const PrefillRequest& request) {
    return target.prefill(request).error().code;
  };
  const Tokens prompt{3, 4};
  const Tokens foreign{3, kToyVocabulary};
  const Tokens too_long(kContext, 5);
  EXPECT_EQ(code_of({.base_count = 0, .tokens = {}}), Errc::protocol);
  EXPECT_EQ(code_of({.base_count = 1, .tokens = prompt}), Errc::protocol);
  EXPECT_EQ(code_of({.base_count = 0, .tokens = prompt, .provisional_count = 2}), Errc::protocol);
  EXPECT_EQ(code_of({.base_count = 0, .tokens = foreign}), Errc::protocol);
  EXPECT_EQ(code_of({.base_count = 0, .tokens = too_long}), Errc::context_full);

  ASSERT_TRUE(target.prefill({.base_count = 0, .tokens = prompt, .sampling = {}}));
  const Tokens before(target.tokens().begin(), target.tokens().end());
  DraftTree bad;
  bad.add(kToyVocabulary, 0);
  EXPECT_EQ(target.verify(bad).error().code, Errc::protocol);
  EXPECT_FALSE(target.prefill({.base_count = 0, .tokens = foreign, .sampling = {}}));
  EXPECT_EQ(before, Tokens(target.tokens().begin(), target.tokens().end()));
  EXPECT_TRUE(target.verify(DraftTree()));
}

}  // namespace
}  // namespace edgedraft::server
