#include <gtest/gtest.h>

#include "server/sessions/pass.h"
#include "server/sessions/session_store.h"
#include "shared/base/random.h"
#include "tests/server/plain_answer.h"
#include "tests/support/family_models.h"

// Sessions of models in which most layers see a window: pages behind it are used by others.
namespace edgedraft::server {
namespace {

using testing::FamilyModel;
class WindowedSessionsTest : public ::testing::TestWithParam<std::string> {
 protected:
  using Tokens = std::vector<std::uint32_t>;
  static constexpr std::uint32_t kContext = 1000;

  SessionParts parts() {
    return {.decoder = model_.decoder(), .context_count = kContext, .is_end = [](std::uint32_t) {
              return false;
            }};
  }
  // Memory for so many sessions of the whole context.
  SessionStore store(std::uint32_t sessions, bool reuses_beginnings = true) {
    return {parts(),
            {.sessions_max = 16,
             .kv_bytes_max = sessions * SessionStore::session_bytes(parts()),
             .reuses_beginnings = reuses_beginnings},
            [this] { return now_; }};
  }
  std::uint32_t pages_per_session() {
    return WindowPages::pages_for(model_.decoder().window(), kContext, KvPool::kPageSlots);
  }

  Tokens random_tokens(std::uint32_t count) {
    Tokens tokens(count);
    for (std::uint32_t& token : tokens) {
      token = static_cast<std::uint32_t>(random_.below(model_.decoder().config().vocabulary_count));
    }
    return tokens;
  }
  static Tokens joined(Tokens first, const Tokens& second) {
    first.insert(first.end(), second.begin(), second.end());
    return first;
  }

  static Session& session(SessionStore& store, std::uint8_t id) {
    return **store.find_or_make(id, wire::SessionId{std::byte{id}}, "someone");
  }
  // Begins a prompt whose first `base` tokens the session has.
  void begin(SessionStore& store, Session& session, const Tokens& prompt, std::uint32_t base = 0) {
    session.used = now_ += std::chrono::seconds(10);
    ASSERT_TRUE(session.target.begin(
        {.base_count = base, .tokens = std::span(prompt).subspan(base), .sampling = {}}));
    ASSERT_TRUE(store.admit(session, now_));
  }
  // A pass of one session, as PassLoop runs it.
  void step(SessionStore& store, Session& session, std::uint32_t rows_max = kMaskRowsMax) {
    PassShare share{.session = &session.target, .rows_max = rows_max};
    rows_ += run_pass(model_.decoder(), std::span(&share, 1));
    ASSERT_FALSE(share.fault);
    store.remember(session);
    ASSERT_LE(store.memory().windowed_pages_held, store.memory().windowed_pages);
  }
  void finish(SessionStore& store, Session& session) {
    while (session.target.busy()) step(store, session);
  }
  // Tokens after the prompt, which has run.
  Tokens decode(SessionStore& store, Session& session, std::size_t count) {
    const std::size_t begin = session.target.tokens().size() - 1;
    while (session.target.tokens().size() < begin + count) {
      EXPECT_TRUE(session.target.begin(DraftTree()));
      EXPECT_TRUE(store.grow(session));
      step(store, session);
    }
    const auto answer = session.target.tokens().subspan(begin);
    return {answer.begin(), answer.end()};
  }
  Tokens alone(const Tokens& prompt, std::size_t count) {
    return testing::plain_answer(parts(), prompt, count);
  }

  Instant now_{std::chrono::hours(1)};
  Random random_{5};
  std::uint64_t rows_ = 0;  // run since the test last cleared it
  std::unique_ptr<Backend> backend_ = make_cpu_backend({.threads = 1});
  FamilyModel model_{*backend_, GetParam(), kContext, testing::Weights::as_stored};
};

TEST_P(WindowedSessionsTest, LongSessionHoldsBoundedPages) {
  SessionStore sessions = store(2, false);
  Session& one = session(sessions, 1);
  const Tokens prompt = random_tokens(kContext - 100);
  begin(sessions, one, prompt);
  while (one.target.busy()) {
    step(sessions, one, 150);
    EXPECT_LE(sessions.memory().windowed_pages_held, pages_per_session());
  }
  EXPECT_EQ(decode(sessions, one, 40), alone(prompt, 40));
  EXPECT_LE(sessions.memory().windowed_pages_held, pages_per_session());
  EXPECT_LT(2 * sessions.memory().windowed_pages_held, sessions.memory().pages_held);
}

// Twice the context costs twice as much in layers without a window only.
TEST_P(WindowedSessionsTest, LongerContextCostsLayersWithoutWindow) {
  SessionParts shorter = parts();
  shorter.context_count = kContext - 320;
  const DecoderConfig& config = model_.decoder().config();
  std::uint64_t cols = 0;
  for (std::size_t i = 0; i < config.kv_cols().size(); ++i) {
    if (config.kv_windows()[i] == 0) cols += config.kv_cols()[i];
  }
  EXPECT_EQ(SessionStore::session_bytes(parts()) - SessionStore::session_bytes(shorter),
            320 * 2 * cols * sizeof(float));
}

// The pool has fewer pages than the two texts have.
TEST_P(WindowedSessionsTest, SessionsUseEachOthersReturnedPages) {
  SessionStore sessions = store(2);
  const Tokens prompts[] = {random_tokens(kContext - 60), random_tokens(kContext - 90)};
  Session* both[] = {&session(sessions, 1), &session(sessions, 2)};
  ASSERT_LT(sessions.memory().windowed_pages, (2 * kContext - 150) / KvPool::kPageSlots);
  for (std::size_t i = 0; i < 2; ++i) begin(sessions, *both[i], prompts[i]);
  while (both[0]->target.busy() || both[1]->target.busy()) {
    for (Session* one : both) {
      if (one->target.busy()) step(sessions, *one, 70);
    }
  }
  Tokens answers[2];
  for (int round = 0; round < 6; ++round) {
    for (std::size_t i = 0; i < 2; ++i) {
      Tokens added = decode(sessions, *both[i], 5);
      answers[i].insert(answers[i].end(), added.begin(), added.end() - 1);
    }
  }
  for (std::size_t i = 0; i < 2; ++i) EXPECT_EQ(answers[i], alone(prompts[i], 24)) << i;
  EXPECT_EQ(sessions.memory().evictions, 0u);
}

TEST_P(WindowedSessionsTest, SharesPrefixAndGoesBackInIt) {
  SessionStore sessions = store(4);
  const Tokens prompt = random_tokens(800);
  Session& first = session(sessions, 1);
  begin(sessions, first, prompt);
  finish(sessions, first);
  EXPECT_EQ(decode(sessions, first, 10), alone(prompt, 10));
  // Another session has the first 700 tokens, of which 21 pages are full.
  rows_ = 0;
  const Tokens similar = joined({prompt.begin(), prompt.begin() + 700}, random_tokens(30));
  Session& second = session(sessions, 2);
  begin(sessions, second, similar);
  finish(sessions, second);
  EXPECT_EQ(rows_, 730u - 21 * 32);
  EXPECT_EQ(decode(sessions, second, 10), alone(similar, 10));
  // A conversation that is edited far before its window.
  rows_ = 0;
  const Tokens edited = joined({prompt.begin(), prompt.begin() + 200}, random_tokens(50));
  begin(sessions, first, edited, 200);
  finish(sessions, first);
  EXPECT_EQ(rows_, 250u - 192);
  EXPECT_EQ(decode(sessions, first, 10), alone(edited, 10));
}

TEST_P(WindowedSessionsTest, EditWithoutPrefixCacheRunsThePromptAgain) {
  SessionStore sessions = store(1, false);
  const Tokens prompt = random_tokens(800);
  Session& one = session(sessions, 1);
  begin(sessions, one, prompt);
  finish(sessions, one);
  // The last pass is still there.
  rows_ = 0;
  const Tokens near = joined({prompt.begin(), prompt.begin() + 700}, random_tokens(10));
  begin(sessions, one, near, 700);
  finish(sessions, one);
  EXPECT_EQ(rows_, 10u);
  EXPECT_EQ(decode(sessions, one, 10), alone(near, 10));
  rows_ = 0;
  const Tokens far = joined({prompt.begin(), prompt.begin() + 200}, random_tokens(10));
  begin(sessions, one, far, 200);
  finish(sessions, one);
  EXPECT_EQ(rows_, 210u);
  EXPECT_EQ(decode(sessions, one, 10), alone(far, 10));
}

// Prompts that share prefixes, edits, drafts and ended sessions, in memory that is too little for
// all.
TEST_P(WindowedSessionsTest, AnyScheduleGivesPlainAnswers) {
  SessionStore sessions = store(2);
  const Tokens common = random_tokens(kContext);
  for (int request = 0; request < 40; ++request) {
    const auto id = static_cast<std::uint8_t>(1 + random_.below(5));
    Session& one = session(sessions, id);
    const auto known = one.target.tokens();
    std::uint32_t base = 0;
    Tokens prompt;
    if (known.size() > 40 && random_.below(2) == 0) {
      base = static_cast<std::uint32_t>(
          1 + random_.below(std::min<std::size_t>(known.size(), kContext - 200)));
      prompt.assign(known.begin(), known.begin() + base);
    } else {
      prompt.assign(common.begin(),
                    common.begin() + static_cast<std::ptrdiff_t>(random_.below(kContext - 200)));
    }
    prompt = joined(std::move(prompt),
                    random_tokens(1 + static_cast<std::uint32_t>(random_.below(150))));
    begin(sessions, one, prompt, base);
    const auto rows = static_cast<std::uint32_t>(30 + random_.below(200));
    while (one.target.busy()) step(sessions, one, rows);
    EXPECT_EQ(decode(sessions, one, 4), alone(prompt, 4)) << "request " << request;
    if (random_.below(3) == 0) sessions.release(id);
    if (random_.below(8) == 0) sessions.forget(id);
  }
  EXPECT_GT(sessions.memory().tokens_reused, 1000u);
  EXPECT_GT(sessions.memory().evictions, 0u);
}

INSTANTIATE_TEST_SUITE_P(Families, WindowedSessionsTest,
                         ::testing::Values("gemma3", "gemma4-keqv", "gemma4-ple", "gpt-oss"),
                         [](const auto& of) {
                           std::string name = of.param;
                           std::ranges::replace(name, '-', '_');
                           return name;
                         });

}  // namespace
}  // namespace edgedraft::server
