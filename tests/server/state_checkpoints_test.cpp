#include <gtest/gtest.h>

#include <chrono>

#include "server/sessions/checkpoint_plan.h"
#include "server/sessions/session_store.h"
#include "shared/base/random.h"
#include "tests/support/family_models.h"

// Prefixes that sessions of hybrids share, with checkpoints of their recurrent states.
namespace edgedraft::server {
namespace {

using testing::FamilyModel;
using Tokens = std::vector<std::uint32_t>;
using Floats = std::vector<float>;

constexpr std::uint32_t kHybridContext = 1000;
constexpr std::uint32_t kAnswer = 4;

struct Answer {
  Tokens tokens;
  std::vector<Floats> logits;  // that chose each token

  bool operator==(const Answer&) const = default;
};

class StateCheckpointsTest : public ::testing::TestWithParam<std::string> {
 protected:
  SessionParts parts() {
    return {.decoder = model_.decoder(),
            .context_count = kHybridContext,
            .is_end = [](std::uint32_t) { return false; }};
  }
  SessionStore store(const SessionStore::Limits& limits) {
    return {parts(), limits, [this] { return now_; }};
  }
  static SessionStore::Limits roomy() { return {.sessions_max = 8}; }

  Tokens random_tokens(std::uint32_t count) {
    Tokens tokens(count);
    for (std::uint32_t& token : tokens) {
      token = static_cast<std::uint32_t>(random_.below(model_.decoder().config().vocabulary_count));
    }
    return tokens;
  }

  // Runs a pass of at most `width` rows, and keeps the logits of its last row.
  std::optional<Outcome> pass(TargetSession& target, std::uint32_t width, Floats& logits) {
    Decoder& decoder = model_.decoder();
    const SequenceRows rows = target.begin_pass(width);
    decoder.forward(std::span(&rows, 1));
    const std::uint32_t first = target.first_deciding_row();
    const std::uint32_t count = rows.batch.count() - first;
    rows_run_ += rows.batch.count();
    if (count == 0) return target.finish_pass({}, {});
    const Matrix all = decoder.logits(first, count);
    Tokens greedy(count);
    decoder.backend().argmax({.logits = all, .tokens = greedy});
    logits.resize(all.cols);
    decoder.backend().read(all.row_range(count - 1, 1), logits);
    return target.finish_pass(all, greedy);
  }

  Session& session(SessionStore& store, std::uint8_t id, const std::string& identity = "someone") {
    return *store.find_or_make(id, wire::SessionId{std::byte{id}}, identity).value();
  }
  // Begins a prompt in passes of `width` rows, until it is read up to `end`.
  void read(SessionStore& store, Session& session, const PrefillRequest& prompt,
            std::uint32_t width, std::uint32_t end) {
    Floats unused;
    session.target.begin(prompt).value();
    ASSERT_TRUE(store.admit(session, now_));
    while (session.target.valid_count() < end) {
      ASSERT_FALSE(pass(session.target, width, unused));
      store.remember(session);
    }
  }
  // A prompt's answer, in passes of `width` rows. rows_run_ counts the prompt's rows.
  Answer answer(SessionStore& store, Session& session, const PrefillRequest& prompt,
                std::uint32_t width = 64) {
    TargetSession& target = session.target;
    Answer answer;
    target.begin(prompt).value();
    EXPECT_TRUE(store.admit(session, now_));
    rows_run_ = 0;
    Floats logits;
    std::optional<Outcome> outcome;
    while (!outcome) {
      outcome = pass(target, width, logits);
      store.remember(session);
    }
    const std::uint64_t rows = rows_run_;
    for (std::uint32_t i = 0;; ++i) {
      answer.tokens.push_back(target.tokens().back());
      answer.logits.push_back(logits);
      if (i == kAnswer) break;
      target.begin(DraftTree()).value();
      EXPECT_TRUE(store.grow(session));
      EXPECT_TRUE(pass(target, width, logits));
      store.remember(session);
    }
    rows_run_ = rows;
    return answer;
  }
  // The answer of a server that has seen nothing else.
  Answer alone(const Tokens& prompt, const SamplingParams& sampling = {.temperature = 0}) {
    SessionStore fresh = store({.sessions_max = 1, .reuses_beginnings = false});
    return answer(fresh, session(fresh, 1),
                  {.base_count = 0, .tokens = prompt, .sampling = sampling});
  }
  static PrefillRequest greedy(const Tokens& tokens, std::uint32_t base = 0) {
    return {.base_count = base, .tokens = tokens, .sampling = {.temperature = 0}};
  }
  static Tokens joined(std::span<const std::uint32_t> first, const Tokens& second) {
    Tokens tokens(first.begin(), first.end());
    tokens.insert(tokens.end(), second.begin(), second.end());
    return tokens;
  }

  std::unique_ptr<Backend> backend_ = make_cpu_backend({.threads = 1});
  FamilyModel model_{*backend_, GetParam(), kHybridContext, testing::Weights::as_stored};
  Random random_{5};
  Instant now_{std::chrono::hours(1)};
  std::uint64_t rows_run_ = 0;
};

TEST_P(StateCheckpointsTest, SharedPrefixGivesTheSameBitsInPassesOfAnyWidth) {
  const Tokens first = random_tokens(300);
  const Tokens second = joined(std::span(first).first(280), random_tokens(30));
  for (const float temperature : {0.0f, 0.8f}) {
    const SamplingParams sampling{.temperature = temperature, .seed = 3};
    const Answer expected = alone(second, sampling);
    for (const std::uint32_t width : {1u, 7u, 64u, 512u}) {
      SessionStore shared = store(roomy());
      answer(shared, session(shared, 1), {.base_count = 0, .tokens = first, .sampling = sampling},
             width);
      EXPECT_EQ(answer(shared, session(shared, 2),
                       {.base_count = 0, .tokens = second, .sampling = sampling}, width),
                expected)
          << "temperature " << temperature << ", width " << width;
      EXPECT_EQ(shared.memory().tokens_reused, 256u);
      EXPECT_EQ(rows_run_, second.size() - 256);
    }
  }
}

TEST_P(StateCheckpointsTest, FindsOnlyCheckpointsOfSameIdentity) {
  SessionStore shared = store(roomy());
  const Tokens prompt = random_tokens(300);
  const Answer expected = answer(shared, session(shared, 1, "a"), greedy(prompt));
  EXPECT_EQ(answer(shared, session(shared, 2, "b"), greedy(prompt)), expected);
  EXPECT_EQ(shared.memory().tokens_reused, 0u);
  EXPECT_EQ(rows_run_, prompt.size());
  EXPECT_EQ(shared.memory().checkpoints_held, 2u);
  EXPECT_EQ(answer(shared, session(shared, 3, "b"), greedy(prompt)), expected);
  EXPECT_EQ(shared.memory().tokens_reused, 256u);
}

// A client whose session the server lost sends the whole conversation again.
TEST_P(StateCheckpointsTest, LostSessionContinuesNearItsLastPromptsEnd) {
  SessionStore shared = store(roomy());
  const Tokens prompt = random_tokens(800);
  const Answer first = answer(shared, session(shared, 1), greedy(prompt));
  shared.forget(1);
  const Tokens next = joined(joined(prompt, first.tokens), random_tokens(20));
  EXPECT_EQ(answer(shared, session(shared, 2), greedy(next)), alone(next));
  EXPECT_EQ(shared.memory().tokens_reused, 768u);
}

TEST_P(StateCheckpointsTest, EditBeforeLastPromptRunsFromLastCheckpointBeforeIt) {
  SessionStore shared = store(roomy());
  const Tokens prompt = random_tokens(800);
  answer(shared, session(shared, 1), greedy(prompt));
  for (const std::uint32_t base : {600u, 513u, 300u, 100u}) {
    const Tokens added = random_tokens(40);
    const Answer expected = alone(joined(std::span(prompt).first(base), added));
    Session& edited = session(shared, 1);
    answer(shared, edited, greedy(prompt));
    EXPECT_EQ(answer(shared, edited, greedy(added, base)), expected) << base;
    EXPECT_EQ(rows_run_, base % 256 + 40) << base;
  }
}

// The text of an outage: its verified part is a known prefix, the rest is checked.
TEST_P(StateCheckpointsTest, ChecksOfflineTextAfterKnownPrefix) {
  SessionStore shared = store(roomy());
  const Tokens prompt = random_tokens(300);
  const Answer expected = answer(shared, session(shared, 1), greedy(prompt));
  const Tokens text =
      joined(prompt, {expected.tokens[0], expected.tokens[1], (expected.tokens[2] + 1) % 300});
  Session& other = session(shared, 2);
  other.target
      .begin(
          {.base_count = 0, .tokens = text, .provisional_count = 3, .sampling = {.temperature = 0}})
      .value();
  ASSERT_TRUE(shared.admit(other, now_));
  EXPECT_EQ(other.target.valid_count(), 256u);
  Floats unused;
  std::optional<Outcome> outcome;
  while (!outcome) outcome = pass(other.target, 64, unused);
  EXPECT_EQ(std::get<PrefillOutcome>(*outcome).accepted_count, 2u);
  EXPECT_EQ(std::get<PrefillOutcome>(*outcome).next, expected.tokens[2]);
}

// The session's own copy lies in a page that it has shared since.
TEST_P(StateCheckpointsTest, AbandonedPromptLeavesSharedPagesUncut) {
  SessionStore shared = store(roomy());
  const Tokens prompt = random_tokens(300);
  Session& own = session(shared, 1);
  answer(shared, own, greedy(prompt));
  const Tokens kept(own.target.tokens().begin(), own.target.tokens().begin() + 302);
  const Tokens more = random_tokens(400);
  read(shared, own, greedy(more, 302), 64, 512);
  own.target.abandon();
  const Tokens other = random_tokens(20);
  EXPECT_EQ(answer(shared, own, greedy(other, 302)), alone(joined(kept, other)));
  EXPECT_EQ(answer(shared, session(shared, 2), greedy(joined(kept, more))),
            alone(joined(kept, more)));
}

TEST_P(StateCheckpointsTest, ReplacesCheckpointThatWasUsedLeastRecently) {
  constexpr std::uint32_t kCheckpoints = 3;
  ASSERT_EQ(checkpoint_count(kHybridContext), kCheckpoints);
  SessionStore shared = store({.sessions_max = 1, .kv_bytes_max = 64 << 20});
  ASSERT_EQ(shared.memory().checkpoints, kCheckpoints);
  std::vector<Tokens> prompts;
  std::uint8_t id = 0;
  const auto reused_by = [&](const Tokens& prompt) {
    const std::uint64_t before = shared.memory().tokens_reused;
    ++id;
    answer(shared, session(shared, id), greedy(prompt));
    shared.release(id);
    return shared.memory().tokens_reused - before;
  };
  for (std::uint32_t i = 0; i < kCheckpoints; ++i) {
    prompts.push_back(random_tokens(270));
    EXPECT_EQ(reused_by(prompts[i]), 0u);
  }
  EXPECT_EQ(reused_by(prompts[0]), 256u);
  reused_by(random_tokens(270));
  EXPECT_EQ(shared.memory().checkpoints_held, kCheckpoints);
  EXPECT_EQ(reused_by(prompts[0]), 256u);
  EXPECT_EQ(reused_by(prompts[1]), 0u);
}

TEST_P(StateCheckpointsTest, TakeAtMostAQuarterOfTheMemoryAndLeaveAWholeContext) {
  const std::uint64_t least = SessionStore::session_bytes(parts());
  const std::uint64_t copy = RecurrentStates::copy_bytes(model_.decoder().config());
  for (const std::uint64_t bytes : {least, 2 * least, 20 * least}) {
    const SessionStore::Memory memory =
        store({.sessions_max = 100, .kv_bytes_max = bytes}).memory();
    EXPECT_LE(memory.bytes, bytes);
    EXPECT_LE(memory.checkpoints * copy, bytes / 4);
    EXPECT_GE(memory.pages, (kHybridContext + kMaskRowsMax) / KvPool::kPageSlots);
    EXPECT_EQ(memory.bytes_held, 0u);
  }
  EXPECT_GT(store({.sessions_max = 100, .kv_bytes_max = 20 * least}).memory().checkpoints, 0u);
}

TEST_P(StateCheckpointsTest, TakesNoneWithoutPrefixCache) {
  SessionStore server = store({.sessions_max = 2, .reuses_beginnings = false});
  const Tokens prompt = random_tokens(300);
  for (std::uint8_t id = 1; id <= 2; ++id) {
    answer(server, session(server, id), greedy(prompt));
    EXPECT_EQ(rows_run_, prompt.size());
  }
  EXPECT_EQ(server.memory().checkpoints, 0u);
}

// Conversations of two identities that are edited, abandoned and lost, with memory for few.
TEST_P(StateCheckpointsTest, AnyHistoryGivesAFreshServersAnswers) {
  SessionStore shared =
      store({.sessions_max = 2, .kv_bytes_max = 2 * SessionStore::session_bytes(parts())});
  ASSERT_GT(shared.memory().checkpoints, 0u);
  const auto below = [this](std::uint32_t count) {
    return static_cast<std::uint32_t>(random_.below(count));
  };
  const Tokens common = random_tokens(300);
  for (int round = 0; round < 24; ++round) {
    now_ += std::chrono::seconds(2);
    const auto id = static_cast<std::uint8_t>(1 + below(3));
    const std::string identity = id == 3 ? "b" : "a";
    if (below(6) == 0) shared.release(id);
    Session& own = session(shared, id, identity);
    const auto length = static_cast<std::uint32_t>(own.target.tokens().size());
    const std::uint32_t base = length == 0 || length > 700 ? 0 : below(length);
    const Tokens added =
        base == 0 ? joined(common, random_tokens(1 + below(100))) : random_tokens(1 + below(250));
    const Tokens text = joined(own.target.tokens().first(base), added);
    const std::uint32_t width = 1 + below(256);
    if (below(4) == 0) {
      const std::uint32_t end = below(static_cast<std::uint32_t>(text.size()));
      read(shared, own, greedy(added, base), width, end);
      own.target.abandon();
      continue;
    }
    EXPECT_EQ(answer(shared, own, greedy(added, base), width), alone(text)) << "round " << round;
  }
  EXPECT_GT(shared.memory().tokens_reused, 1000u);
}

INSTANTIATE_TEST_SUITE_P(Hybrids, StateCheckpointsTest, ::testing::Values("qwen35", "lfm2"),
                         [](const auto& of) { return std::string(of.param); });

TEST(CheckpointPlanTest, BoundsCheckpointsOfLongTexts) {
  EXPECT_EQ(checkpoint_count(255), 0u);
  EXPECT_EQ(checkpoint_count(2048), 8u);
  EXPECT_LE(checkpoint_count(67'000), 28u);
  EXPECT_LE(checkpoint_count(262'144), 36u);
}

TEST(CheckpointPlanTest, EndsLongPromptAtItsLastPageBoundary) {
  EXPECT_EQ(next_checkpoint(0, 0, 1000), 256u);
  EXPECT_EQ(next_checkpoint(768, 768, 1000), std::nullopt) << "a new one would be near the last";
  EXPECT_EQ(next_checkpoint(16384, 16384, 40000), 20480u);
  EXPECT_EQ(next_checkpoint(36864, 36864, 40000), 40000u);
}

}  // namespace
}  // namespace edgedraft::server
