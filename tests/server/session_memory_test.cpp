#include "shared/drafting/moa/moa_tap.h"
#include "shared/runtime/memory_meter.h"
#include "tests/server/session_memory_rig.h"
#include "tests/support/expect.h"

// Reuse and number of KV cache pages.
namespace edgedraft::server {
namespace {

using testing::joined;
using testing::kToyVocabulary;
using testing::SessionMemoryTest;
using testing::ToyMoa;

class KvTypeTest : public SessionMemoryTest, public ::testing::WithParamInterface<DType> {
 protected:
  KvTypeTest() { kv_type_ = GetParam(); }

  // An answer by drafts, each with the next tokens of `truth` among wrong ones.
  Tokens drafted(PassLoop& server, const Client& c, const Tokens& prompt, const Tokens& truth) {
    Tokens answer{answered(server, c, prompt, 0, lockstep())};
    while (answer.size() < truth.size()) {
      std::vector<HintNode> nodes;
      for (std::size_t i = answer.size(); i < truth.size() && i < answer.size() + 4; ++i) {
        // The second of each pair is right and the parent of the next pair.
        const bool below_root = nodes.empty();
        const std::uint16_t beside = below_root ? 0 : 1;
        const std::uint16_t right = below_root ? 0 : 2;
        nodes.push_back({.token = (truth[i] + 1) % kToyVocabulary, .distance = beside});
        nodes.push_back({.token = truth[i], .distance = right});
      }
      draft(server, c, nodes);
      run(server);
      const wire::Verdict told = verdict(c);
      answer.insert(answer.end(), told.tokens.begin(), told.tokens.end());
      answer.push_back(told.next);
    }
    answer.resize(truth.size());
    return answer;
  }
};

TEST_P(KvTypeTest, DraftedAnswersMatchPlainOnesOfSameType) {
  PassLoop server = loop(6 * kLeastPages);
  for (std::uint64_t id = 1; id <= 4; ++id) {
    const Tokens prompt = random_tokens(static_cast<std::uint32_t>(20 + 30 * id));
    const Tokens plain = alone(prompt, 40);
    EXPECT_EQ(drafted(server, client(id), prompt, plain), plain) << id;
    EXPECT_LT(server.count().passes, 40 * id) << "drafts were accepted";
  }
}

TEST_P(KvTypeTest, PoolSizeFollowsElementSize) {
  const DecoderConfig& config = toy_.config;
  const std::uint64_t page = 2 * config.layer_count * KvPool::kPageSlots *
                             cache_bytes(GetParam(), config.layer.heads.kv_cols());
  EXPECT_EQ(page_bytes(), page);
  SessionStore store(parts(), {.sessions_max = 8, .kv_bytes_max = 100 * page},
                     [this] { return now_; });
  EXPECT_EQ(store.memory().pages, 100u);
  EXPECT_EQ(store.memory().bytes, store.memory().pages * page);
}

INSTANTIATE_TEST_SUITE_P(Types, KvTypeTest, ::testing::ValuesIn(kCacheTypes),
                         [](const auto& of) { return std::string(traits(of.param).name); });

// Idle connections that a device keeps for later must not lock other clients out.
TEST_F(SessionMemoryTest, EvictsConnectedIdleSessionAtSessionLimit) {
  SessionStore store(parts(), {.sessions_max = 3}, [this] { return now_; });
  const auto make = [&](std::uint8_t id, const std::string& identity) {
    return store.find_or_make(id, wire::SessionId{std::byte{id}}, identity);
  };
  now_ += std::chrono::seconds(10);
  ASSERT_TRUE(make(1, "a"));
  now_ += std::chrono::milliseconds(10);
  ASSERT_TRUE(make(2, "b"));
  now_ += std::chrono::milliseconds(10);
  ASSERT_TRUE(make(3, "b"));
  EXPECT_TRUE(fails_with(make(4, "b"), Errc::refused));
  now_ += std::chrono::seconds(1);
  ASSERT_TRUE(make(4, "b"));
  EXPECT_EQ(store.find(2), nullptr)
      << "the identity's own sessions go first, even if another's is idle longer";
  EXPECT_NE(store.find(1), nullptr);
  EXPECT_NE(store.find(3), nullptr);
  ASSERT_TRUE(make(5, "c"));
  EXPECT_EQ(store.find(1), nullptr);
  EXPECT_EQ(store.count(), 3u);
}

// A refused prompt must not evict a session for the one it would have needed.
TEST_F(SessionMemoryTest, RefusedPromptEvictsNoSession) {
  PassLoop server(parts(), {.sessions = {.sessions_max = 1}, .metrics = metrics_},
                  [this] { return now_; });
  answered(server, client(1), {5, 6, 7});
  server.end(1);
  const Client asking = client(2);
  const auto answer_to = [&](const wire::Prefill& request) {
    server.begin(asking, request, now_);
    return error(asking).code;
  };
  EXPECT_EQ(answer_to({.round = 1, .tokens = Tokens(kContext, 5)}), Errc::context_full);
  EXPECT_EQ(answer_to({.round = 2, .tokens = {testing::kToyVocabulary}}), Errc::protocol);
  EXPECT_EQ(server.memory().evictions, 0u);
  EXPECT_EQ(metrics_->sessions.value(), 1u);
  EXPECT_EQ(answered(server, asking, {5, 6, 7}), alone({5, 6, 7}, 1)[0]);
  EXPECT_EQ(server.memory().evictions, 1u);
}

// Over a slow link the rows of a long prompt take longer than any answer.
TEST_F(SessionMemoryTest, SessionSendingRowsIsNotIdle) {
  SessionStore store(parts(), {.sessions_max = 1}, [this] { return now_; });
  const auto make = [&](std::uint8_t id) {
    return store.find_or_make(id, wire::SessionId{std::byte{id}}, "a");
  };
  now_ += std::chrono::seconds(10);
  ASSERT_TRUE(make(1));
  now_ += std::chrono::seconds(5);
  store.find(1)->rows_sent = now_;
  EXPECT_FALSE(make(2));
  now_ += std::chrono::seconds(1);
  EXPECT_TRUE(make(2));
}

// The earlier answer to the text is still known, but other sequences may hold its pages.
TEST_F(SessionMemoryTest, AnswersRepeatedPromptAgain) {
  PassLoop server = loop(4 * kLeastPages);
  const Client c = client(1);
  for (const std::uint32_t prompt_length : {20u, 32u, 100u}) {
    const Tokens prompt = random_tokens(prompt_length);
    const Tokens expected = alone(prompt, 70);
    for (int time = 0; time < 3; ++time) {
      Tokens answer{time == 0 ? answered(server, c, prompt, 0, lockstep())
                              : answered(server, c, {}, prompt_length, lockstep())};
      while (answer.size() < expected.size()) answer.push_back(continued(server, c));
      EXPECT_EQ(answer, expected) << "repetition " << time << ", prompt length " << prompt_length;
    }
  }
}

TEST_F(SessionMemoryTest, ReusesKnownPrefix) {
  PassLoop server = loop(4 * kLeastPages);
  const Tokens prompt = random_tokens(100);
  const auto rows_of = [&](const Client& c, const Tokens& tokens) {
    const std::uint64_t before = server.count().rows;
    EXPECT_EQ(answered(server, c, tokens), alone(tokens, 1)[0]);
    return server.count().rows - before;
  };
  EXPECT_EQ(rows_of(client(1), prompt), 100u);
  // Three full pages of a live session; the fourth is not full.
  const Tokens similar = joined({prompt.begin(), prompt.begin() + 98}, random_tokens(20));
  EXPECT_EQ(rows_of(client(2), similar), 118u - 96u);
  // The last token's logits are needed, so its page is computed even if it is known.
  EXPECT_EQ(rows_of(client(3), {prompt.begin(), prompt.begin() + 96}), 32u);
  // The sessions have ended, but their pages are retained.
  for (const std::uint64_t id : {1, 2, 3}) server.end(id);
  EXPECT_EQ(rows_of(client(4), similar), 118u - 96u);
  EXPECT_EQ(server.memory().tokens_reused, 96u + 64u + 96u);
  // One identity's text must not show in another's latency.
  EXPECT_EQ(rows_of(client(5, "someone else"), similar), 118u);
}

TEST_F(SessionMemoryTest, RunsWholePromptsWithoutPrefixCache) {
  PassLoop server(parts(),
                  {.sessions = {.sessions_max = 64,
                                .kv_bytes_max = 4 * kLeastPages * page_bytes(),
                                .reuses_beginnings = false},
                   .metrics = metrics_},
                  [this] { return now_; });
  const Tokens prompt = random_tokens(100);
  const std::uint32_t expected = alone(prompt, 1)[0];
  for (const std::uint64_t id : {1, 2, 3}) {
    const std::uint64_t before = server.count().rows;
    EXPECT_EQ(answered(server, client(id), prompt), expected);
    EXPECT_EQ(server.count().rows - before, 100u);
  }
  EXPECT_EQ(server.memory().tokens_reused, 0u);
  for (const std::uint64_t id : {1, 2, 3}) server.end(id);
  EXPECT_EQ(server.memory().pages_known, 0u);
}

TEST_P(KvTypeTest, ReusedPagesGiveIdenticalAnswersAndActivations) {
  const ToyMoa moa(toy_, 3, 2);
  MoaTap tap(*backend_, moa.config, moa.tensors);
  tap_ = &tap;
  const Tokens prompt = random_tokens(150);
  const Tokens expected = alone(prompt, 30);
  const auto talk = [&](PassLoop& server, const Client& c) {
    std::vector<Bytes> rows;
    Tokens answer;
    ask_in_lockstep(server, c, prompt);
    while (answer.size() < expected.size()) {
      run(server);
      const wire::Verdict told = verdict(c);
      rows.push_back(told.activations);
      answer.push_back(told.next);
      draft(server, c);
    }
    EXPECT_EQ(answer, expected);
    for (const wire::Activations& chunk : inboxes_.at(c.connection_id)->chunks) {
      rows.push_back(chunk.data);
    }
    return rows;
  };
  PassLoop fresh = loop(4 * kLeastPages);
  const auto computed = talk(fresh, client(1));
  PassLoop server = loop(4 * kLeastPages);
  talk(server, client(2));
  ASSERT_EQ(server.memory().tokens_reused, 0u);
  const auto reused = talk(server, client(3));
  EXPECT_EQ(server.memory().tokens_reused, 128u);
  EXPECT_EQ(reused, computed);
}

// A client goes back into a page that another session shares, and writes different tokens.
TEST_P(KvTypeTest, RewritingSharedPageLeavesOtherSessionsUnchanged) {
  PassLoop server = loop(4 * kLeastPages);
  const Tokens prompt = random_tokens(100);
  const Client first = client(1);
  const Client second = client(2);
  answered(server, first, prompt);
  answered(server, second, prompt, 0, lockstep());
  ASSERT_EQ(server.memory().tokens_reused, 96u);
  for (const std::uint32_t base : {80u, 64u, 33u}) {
    const Tokens rest = random_tokens(30);
    const Tokens changed = joined({prompt.begin(), prompt.begin() + base}, rest);
    EXPECT_EQ(answered(server, first, rest, base), alone(changed, 1)[0]) << base;
  }
  Tokens answer = alone(prompt, 6);
  for (std::size_t i = 1; i < answer.size(); ++i) EXPECT_EQ(continued(server, second), answer[i]);
}

TEST_F(SessionMemoryTest, RefusesLimitTooSmallForOneSession) {
  const std::uint64_t least = SessionStore::session_bytes(parts());
  EXPECT_TRUE(SessionStore::check(parts(), {.sessions_max = 1, .kv_bytes_max = least}));
  EXPECT_TRUE(SessionStore::check(parts(), {.sessions_max = 1, .kv_bytes_max = 0}));
  const auto refused = SessionStore::check(parts(), {.sessions_max = 1, .kv_bytes_max = least - 1});
  EXPECT_TRUE(fails_with(refused, Errc::usage, "--kv-memory"));
}

TEST_F(SessionMemoryTest, DefaultLimitFitsAllSessionsUpToHalfTheDevice) {
  const auto pool_bytes = [&](std::uint64_t device_bytes) {
    SessionStore store(parts(),
                       {.sessions_max = 8, .kv_bytes_max = 0, .device_bytes = device_bytes},
                       [this] { return now_; });
    return store.memory().bytes;
  };
  const std::uint64_t session = SessionStore::session_bytes(parts());
  EXPECT_EQ(pool_bytes(0), 8 * session);
  EXPECT_EQ(pool_bytes(100 * session), 8 * session);
  EXPECT_EQ(pool_bytes(6 * session), 3 * session);
  EXPECT_EQ(pool_bytes(session), session);
}

// A server whose passes run out of memory could serve no client, so it must refuse to start.
TEST_F(SessionMemoryTest, RefusesToOpenWithoutMemoryForPass) {
  const std::uint64_t session = SessionStore::session_bytes(parts());
  // The bytes of the pool on a device that has `bytes_left` after loading the model, and whose
  // operations take as much as four sessions.
  const auto pool_bytes = [&](std::uint64_t bytes_left, std::uint64_t kv_bytes_max) {
    const auto opened = [&](const std::shared_ptr<MemoryMeter>& meter, const auto& use) {
      const auto backend = make_cpu_backend({.threads = 1, .meter = meter});
      Decoder decoder(*backend, toy_.config, toy_.tensors, kContext);
      return use(decoder);
    };
    const auto unlimited = std::make_shared<MemoryMeter>();
    const std::uint64_t model = opened(unlimited, [&](Decoder&) { return unlimited->held(); });
    return opened(std::make_shared<MemoryMeter>(model + bytes_left), [&](Decoder& decoder) {
      const SessionStore store(
          {.decoder = decoder,
           .context_count = kContext,
           .is_end = parts().is_end,
           .kv_type = kv_type_},
          {.sessions_max = 8, .kv_bytes_max = kv_bytes_max, .scratch_bytes = 4 * session},
          [this] { return now_; });
      return store.memory().bytes;
    });
  };
  EXPECT_EQ(pool_bytes(7 * session, 0), 2 * session);
  EXPECT_EQ(pool_bytes(7 * session, session), session);
  try {
    pool_bytes(4 * session, session);
    ADD_FAILURE() << "opened without memory for a pass";
  } catch (const DeviceError& e) {
    EXPECT_TRUE(contains(std::string(e.what()), "--kv-memory")) << e.what();
  }
}

}  // namespace
}  // namespace edgedraft::server
