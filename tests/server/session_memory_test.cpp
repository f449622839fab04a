#include <gtest/gtest.h>

#include <deque>

#include "server/passes/pass_loop.h"
#include "shared/drafting/moa/moa_tap.h"
#include "tests/protocol/support.h"
#include "tests/server/held_length.h"
#include "tests/server/plain_answer.h"
#include "tests/support/toy_models.h"

// How sessions share the memory for keys and values: whose pages are reused, who waits, who gives
// way. PassLoop on a simulated clock.
namespace edgedraft {
namespace {

using testing::kToyVocabulary;
using testing::ToyDecoder;
using testing::ToyMoa;
using Tokens = std::vector<std::uint32_t>;

// The server's reasons; `Refusal` is here what a client hears.
using Refused = edgedraft::Refusal;
constexpr std::uint32_t kContext = 256;
// Of the smallest pool: a context and a tree behind it.
constexpr std::uint32_t kLeastPages = (kContext + kMaskRowsMax) / KvPool::kPageSlots;

struct Refusal {
  std::uint32_t round;
  Error error;
};

class Inbox final : public Replies {
 public:
  void verdict(wire::Verdict verdict) override {
    length.heard(verdict);
    news.emplace_back(std::move(verdict));
  }
  void activations(wire::Activations chunk) override { chunks.push_back(std::move(chunk)); }
  void refuse(std::uint32_t round, Error error) override {
    news.emplace_back(Refusal{round, std::move(error)});
  }

  testing::HeldLength length;
  std::deque<std::variant<wire::Verdict, Refusal>> news;
  std::vector<wire::Activations> chunks;
};

class SessionMemoryTest : public ::testing::Test {
 protected:
  SessionParts parts() {
    return {.decoder = decoder_,
            .context_count = kContext,
            .is_end = [](std::uint32_t) { return false; },
            .kv_type = kv_type_};
  }
  std::uint64_t page_bytes() { return SessionStore::session_bytes(parts()) / kLeastPages; }

  PassLoop loop(std::uint32_t pages, std::uint32_t waiting_max = 64, Duration wait_max = {}) {
    return {parts(),
            {.sessions = {.sessions_max = 64,
                          .kv_bytes_max = pages * page_bytes(),
                          .waiting_max = waiting_max},
             .wait_max = wait_max,
             .metrics = metrics_},
            [this] { return now_; }};
  }

  Client client(std::uint64_t connection_id, const std::string& identity = "someone") {
    inboxes_[connection_id] = std::make_shared<Inbox>();
    wire::SessionId session{};
    session[0] = static_cast<std::byte>(connection_id);
    return {.connection_id = connection_id,
            .reply = inboxes_[connection_id],
            .session = session,
            .identity = identity,
            .tap = tap_};
  }

  Tokens random_tokens(std::uint32_t count) {
    Tokens tokens(count);
    for (auto& t : tokens) t = 3 + static_cast<std::uint32_t>(random_.below(kToyVocabulary - 3));
    return tokens;
  }

  // What a client alone gets behind the prompt.
  Tokens alone(const Tokens& prompt, std::size_t count, const SamplingParams& sampling = {}) {
    return testing::plain_answer({decoder_, kContext, parts().is_end, kv_type_}, prompt, count,
                                 sampling);
  }

  void ask(PassLoop& loop, const Client& c, std::uint32_t round, const Tokens& tokens,
           std::uint32_t base = 0) {
    const wire::Prefill request{.round = round,
                                .base_length = base,
                                .tokens = tokens,
                                .sampling = {.temperature = 0.0f, .seed = 0}};
    inboxes_.at(c.connection_id)->length.asked(request);
    loop.begin(c, request, now_);
  }
  std::uint32_t length(const Client& c) const {
    return inboxes_.at(c.connection_id)->length.value();
  }
  void draft(PassLoop& loop, const Client& c, std::uint32_t round) {
    loop.begin(c, wire::Draft{.round = round, .base_length = length(c)}, now_);
  }
  static void run(PassLoop& loop) {
    for (int i = 0; i < 1000 && !loop.idle(); ++i) loop.step();
    ASSERT_TRUE(loop.idle());
  }
  // The one reply that has come since the last call.
  std::variant<wire::Verdict, Refusal> reply(const Client& c) {
    auto& news = inboxes_.at(c.connection_id)->news;
    if (news.size() != 1) ADD_FAILURE() << news.size() << " replies to " << c.connection_id;
    if (news.empty()) return Refusal{};
    auto first = std::move(news.front());
    news.clear();
    return first;
  }
  bool has_reply(const Client& c) { return !inboxes_.at(c.connection_id)->news.empty(); }
  std::uint32_t next(const Client& c) {
    const auto r = reply(c);
    if (const auto* refusal = std::get_if<Refusal>(&r)) {
      ADD_FAILURE() << refusal->error.message;
      return ~0u;
    }
    return std::get<wire::Verdict>(r).next;
  }
  Error error(const Client& c) {
    const auto r = reply(c);
    return std::holds_alternative<Refusal>(r) ? std::get<Refusal>(r).error : Error{};
  }

  std::uint64_t refused(Refused why) const {
    return metrics_->refusals[static_cast<std::size_t>(why)].value();
  }

  std::shared_ptr<Metrics> metrics_ = std::make_shared<Metrics>();
  Instant now_{std::chrono::hours(1)};
  Random random_{11};
  std::map<std::uint64_t, std::shared_ptr<Inbox>> inboxes_;
  Tap* tap_ = nullptr;
  DType kv_type_ = DType::f32;
  ToyDecoder toy_{1};
  std::unique_ptr<Backend> backend_ = make_cpu_backend({.threads = 1});
  Decoder decoder_{*backend_, toy_.config, toy_.tensors, kContext};
};

// --- reuse ---

class KvTypeTest : public SessionMemoryTest, public ::testing::WithParamInterface<DType> {
 protected:
  KvTypeTest() { kv_type_ = GetParam(); }

  // An answer of drafts, each of which holds the next tokens of `truth` and others beside them.
  Tokens drafted(PassLoop& server, const Client& c, const Tokens& prompt, const Tokens& truth) {
    ask(server, c, 1, prompt);
    run(server);
    Tokens answer = {next(c)};
    for (std::uint32_t round = 2; answer.size() < truth.size(); ++round) {
      Tokens nodes;
      wire::Draft draft{.round = round, .base_length = length(c)};
      for (std::size_t i = answer.size(); i < truth.size() && i < answer.size() + 4; ++i) {
        const auto parent = static_cast<std::uint8_t>(nodes.size());
        for (const std::uint32_t token : {(truth[i] + 1) % kToyVocabulary, truth[i]}) {
          nodes.push_back(token);
          draft.parents.push_back(parent);
        }
      }
      draft.tokens = nodes;
      server.begin(c, draft, now_);
      run(server);
      const auto verdict = std::get<wire::Verdict>(reply(c));
      for (const std::uint8_t node : verdict.path) answer.push_back(nodes[node - 1u]);
      answer.push_back(verdict.next);
    }
    answer.resize(truth.size());
    return answer;
  }
};

TEST_P(KvTypeTest, DraftedAnswersAreThePlainOnesOfTheSameType) {
  PassLoop server = loop(6 * kLeastPages);
  for (std::uint64_t id = 1; id <= 4; ++id) {
    const Tokens prompt = random_tokens(static_cast<std::uint32_t>(20 + 30 * id));
    const Tokens plain = alone(prompt, 40);
    EXPECT_EQ(drafted(server, client(id), prompt, plain), plain) << id;
    EXPECT_LT(server.count().passes, 40 * id) << "drafts were accepted";
  }
}

TEST_P(KvTypeTest, APoolHoldsAsManyTokensAsFitAndSaysWhatItTakes) {
  const std::uint64_t element = GetParam() == DType::f32 ? 4 : 2;
  const DecoderConfig& config = toy_.config;
  const std::uint64_t page =
      2 * element * config.layer_count * config.layer.heads.kv_cols() * KvPool::kPageSlots;
  EXPECT_EQ(page_bytes(), page);
  SessionStore store(parts(), {.sessions_max = 8, .kv_bytes_max = 100 * 4 * page / element},
                     [this] { return now_; });
  EXPECT_EQ(store.memory().pages, 400 / element);
  EXPECT_EQ(store.memory().bytes, store.memory().pages * page);
}

INSTANTIATE_TEST_SUITE_P(Types, KvTypeTest, ::testing::Values(DType::f32, DType::f16, DType::bf16),
                         [](const auto& of) { return std::string(traits(of.param).name); });

// A device keeps connections for conversations that may go on; they do not lock others out.
TEST_F(SessionMemoryTest, WhereThereAreAsManyAsMayBeAConnectedSessionThatIdlesGivesWay) {
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
  const auto refused = make(4, "b");
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::refused);
  now_ += std::chrono::seconds(1);
  ASSERT_TRUE(make(4, "b"));
  EXPECT_EQ(store.find(2), nullptr) << "its own go before another's that idles longer";
  EXPECT_NE(store.find(1), nullptr);
  EXPECT_NE(store.find(3), nullptr);
  ASSERT_TRUE(make(5, "c"));
  EXPECT_EQ(store.find(1), nullptr);
  EXPECT_EQ(store.count(), 3u);
}

// What was said to the same text before is still known, but other sequences may hold its pages,
// too.
TEST_F(SessionMemoryTest, TheSameTextIsAnsweredAgainAndGoesOn) {
  PassLoop server = loop(4 * kLeastPages);
  const Client c = client(1);
  for (const std::uint32_t prompt_length : {20u, 32u, 100u}) {
    const Tokens prompt = random_tokens(prompt_length);
    const Tokens expected = alone(prompt, 70);
    std::uint32_t round = 1;
    for (int time = 0; time < 3; ++time) {
      if (time == 0) ask(server, c, round++, prompt);
      if (time > 0) ask(server, c, round++, {}, prompt_length);
      run(server);
      Tokens answer{next(c)};
      while (answer.size() < expected.size()) {
        draft(server, c, round++);
        run(server);
        answer.push_back(next(c));
      }
      EXPECT_EQ(answer, expected) << "time " << time << " of a prompt of " << prompt_length;
    }
  }
}

TEST_F(SessionMemoryTest, ABeginningThatIsThereIsNotRunAgain) {
  PassLoop server = loop(4 * kLeastPages);
  const Tokens prompt = random_tokens(100);
  const auto rows_of = [&](const Client& c, const Tokens& tokens) {
    const std::uint64_t before = server.count().rows;
    ask(server, c, 1, tokens);
    run(server);
    EXPECT_EQ(next(c), alone(tokens, 1)[0]);
    return server.count().rows - before;
  };
  EXPECT_EQ(rows_of(client(1), prompt), 100u);
  // Three full pages of a session that lives; the fourth is not full.
  Tokens similar(prompt.begin(), prompt.begin() + 98);
  const Tokens rest = random_tokens(20);
  similar.insert(similar.end(), rest.begin(), rest.end());
  EXPECT_EQ(rows_of(client(2), similar), 118u - 96u);
  // The last token's logits are wanted, so its page runs even where it is known.
  EXPECT_EQ(rows_of(client(3), {prompt.begin(), prompt.begin() + 96}), 32u);
  // Nobody's any more, but not forgotten.
  for (const std::uint64_t id : {1, 2, 3}) server.end(id);
  EXPECT_EQ(rows_of(client(4), similar), 118u - 96u);
  EXPECT_EQ(server.memory().tokens_reused, 96u + 64u + 96u);
  // What one has sent shows nowhere in what another waits for.
  EXPECT_EQ(rows_of(client(5, "someone else"), similar), 118u);
}

TEST_P(KvTypeTest, ReusedPagesGiveTheSameAnswersAndActivationsBitForBit) {
  const ToyMoa moa(toy_, 3, 2);
  MoaTap tap(*backend_, moa.config, moa.tensors);
  tap_ = &tap;
  const Tokens prompt = random_tokens(150);
  const Tokens expected = alone(prompt, 30);
  const auto talk = [&](PassLoop& server, const Client& c) {
    std::vector<Bytes> rows;
    Tokens answer;
    ask(server, c, 1, prompt);
    for (std::uint32_t round = 2; answer.size() < expected.size(); ++round) {
      run(server);
      const auto verdict = std::get<wire::Verdict>(reply(c));
      rows.push_back(verdict.activations);
      answer.push_back(verdict.next);
      draft(server, c, round);
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

// A client goes back to the middle of a page that another one shares, and writes on differently.
TEST_P(KvTypeTest, WhatOneRewritesStaysAsItWasForTheOthers) {
  PassLoop server = loop(4 * kLeastPages);
  const Tokens prompt = random_tokens(100);
  const Client first = client(1);
  const Client second = client(2);
  ask(server, first, 1, prompt);
  run(server);
  next(first);
  ask(server, second, 1, prompt);
  run(server);
  next(second);
  ASSERT_EQ(server.memory().tokens_reused, 96u);
  for (const std::uint32_t base : {80u, 64u, 33u}) {
    Tokens changed(prompt.begin(), prompt.begin() + base);
    const Tokens rest = random_tokens(30);
    changed.insert(changed.end(), rest.begin(), rest.end());
    ask(server, first, base, rest, base);
    run(server);
    EXPECT_EQ(next(first), alone(changed, 1)[0]) << base;
  }
  Tokens answer = alone(prompt, 6);
  for (std::size_t i = 1; i < answer.size(); ++i) {
    draft(server, second, static_cast<std::uint32_t>(10 + i));
    run(server);
    EXPECT_EQ(next(second), answer[i]);
  }
}

// --- limits ---

TEST_F(SessionMemoryTest, RefusesALimitThatNoSessionFitsInto) {
  const std::uint64_t least = SessionStore::session_bytes(parts());
  EXPECT_TRUE(SessionStore::check(parts(), {.sessions_max = 1, .kv_bytes_max = least}));
  EXPECT_TRUE(SessionStore::check(parts(), {.sessions_max = 1, .kv_bytes_max = 0}));
  const auto refused = SessionStore::check(parts(), {.sessions_max = 1, .kv_bytes_max = least - 1});
  ASSERT_FALSE(refused);
  EXPECT_EQ(refused.error().code, Errc::usage);
  EXPECT_NE(refused.error().message.find("--kv-memory"), std::string::npos);
}

TEST_F(SessionMemoryTest, WithoutALimitThereIsRoomForAllSessionsButNotMoreThanHalfTheDevice) {
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

// --- the line ---

// Room for two prompts of 200 tokens (7 pages) and what they draft, not for three.
class LineTest : public SessionMemoryTest {
 protected:
  static constexpr std::uint32_t kPages = 18;

  void fill(PassLoop& server) {
    for (const Client* c : {&first_, &second_}) {
      const Tokens& prompt = c == &first_ ? prompts_[0] : prompts_[1];
      ask(server, *c, 1, prompt);
      run(server);
      EXPECT_EQ(next(*c), alone(prompt, 1)[0]);
      now_ += std::chrono::milliseconds(10);
    }
  }

  std::vector<Tokens> prompts_ = {random_tokens(200), random_tokens(200), random_tokens(200),
                                  random_tokens(200)};
  Client first_ = client(1);
  Client second_ = client(2);
  Client third_ = client(3);
  Client fourth_ = client(4);
};

TEST_F(LineTest, APromptWaitsUntilSomebodyLeaves) {
  PassLoop server = loop(kPages);
  fill(server);
  ask(server, third_, 1, prompts_[2]);
  ask(server, fourth_, 1, prompts_[3]);
  run(server);
  EXPECT_EQ(server.waiting_count(), 2u);
  EXPECT_FALSE(has_reply(third_));
  // Those that are at work go on.
  draft(server, first_, 2);
  run(server);
  EXPECT_EQ(next(first_), alone(prompts_[0], 2)[1]);
  server.end(2);
  server.step();
  run(server);
  EXPECT_EQ(next(third_), alone(prompts_[2], 1)[0]);
  EXPECT_FALSE(has_reply(fourth_));
  server.end(3);
  server.step();
  run(server);
  EXPECT_EQ(next(fourth_), alone(prompts_[3], 1)[0]);
  EXPECT_EQ(server.waiting_count(), 0u);
}

TEST_F(LineTest, TheLineIsBoundedAndTheRefusalNamesTheRemedy) {
  PassLoop server = loop(kPages, 1);
  fill(server);
  ask(server, third_, 1, prompts_[2]);
  ask(server, fourth_, 1, prompts_[3]);
  const Error refused = error(fourth_);
  EXPECT_EQ(refused.code, Errc::refused);
  EXPECT_NE(refused.message.find("--kv-memory"), std::string::npos);
  EXPECT_EQ(this->refused(Refused::no_room), 1u);
  EXPECT_EQ(server.waiting_count(), 1u);
}

TEST_F(LineTest, WhoHadNoTurnForTooLongIsRefusedAndTheOthersGoOn) {
  PassLoop server = loop(kPages, 64, std::chrono::milliseconds(500));
  fill(server);
  ask(server, third_, 1, prompts_[2]);
  now_ += std::chrono::milliseconds(300);
  ask(server, fourth_, 1, prompts_[3]);
  now_ += std::chrono::milliseconds(300);
  server.step();
  EXPECT_EQ(error(third_).code, Errc::refused);
  EXPECT_EQ(refused(Refused::deadline), 1u);
  EXPECT_EQ(server.waiting_count(), 1u);
  server.end(1);
  server.step();
  run(server);
  EXPECT_EQ(next(fourth_), alone(prompts_[3], 1)[0]);
  // It may ask again.
  server.end(4);
  ask(server, third_, 2, prompts_[2]);
  run(server);
  EXPECT_EQ(next(third_), alone(prompts_[2], 1)[0]);
}

TEST_F(LineTest, WhoCancelsOrLeavesIsNotWaitedFor) {
  PassLoop server = loop(kPages);
  fill(server);
  ask(server, third_, 1, prompts_[2]);
  ask(server, fourth_, 1, prompts_[3]);
  server.cancel(3, 1);
  EXPECT_EQ(server.waiting_count(), 1u);
  server.end(4);
  EXPECT_EQ(server.waiting_count(), 0u);
  // The cancelled one asks again and gets its turn.
  ask(server, third_, 2, prompts_[3]);
  server.end(1);
  server.step();
  run(server);
  EXPECT_EQ(next(third_), alone(prompts_[3], 1)[0]);
}

TEST_F(LineTest, TheSessionThatIsIdleLongestGivesWayAndItsClientSendsAllAgain) {
  PassLoop server = loop(kPages);
  fill(server);
  ask(server, third_, 1, prompts_[2]);
  run(server);
  EXPECT_FALSE(has_reply(third_));
  now_ += std::chrono::milliseconds(985);  // the first is idle for more than a second
  server.step();
  run(server);
  EXPECT_EQ(next(third_), alone(prompts_[2], 1)[0]);
  draft(server, first_, 2);
  EXPECT_EQ(error(first_).code, Errc::session_unknown);
  ask(server, first_, 3, random_tokens(5), 201);
  EXPECT_EQ(error(first_).code, Errc::session_unknown);
  draft(server, second_, 2);
  run(server);
  EXPECT_EQ(next(second_), alone(prompts_[1], 2)[1]);

  // Its pages may be gone or not: what it gets is the same.
  now_ += std::chrono::seconds(2);
  ask(server, first_, 4, prompts_[0]);
  run(server);
  EXPECT_EQ(next(first_), alone(prompts_[0], 1)[0]);
}

TEST_F(LineTest, WhoWaitsLongGetsItsTurnThoughNobodyIsIdle) {
  PassLoop server = loop(kPages);
  fill(server);
  ask(server, third_, 1, prompts_[2]);
  const Instant begun = now_;
  for (std::uint32_t round = 2; !has_reply(third_); ++round) {
    ASSERT_LT(now_ - begun, std::chrono::seconds(6));
    for (const Client* c : {&first_, &second_}) {
      if (has_reply(third_)) break;
      draft(server, *c, round);
      run(server);
      if (now_ - begun < std::chrono::seconds(4)) next(*c);
    }
    now_ += std::chrono::milliseconds(500);
    server.step();
    run(server);
  }
  EXPECT_GE(now_ - begun, std::chrono::seconds(5));
  EXPECT_EQ(next(third_), alone(prompts_[2], 1)[0]);
}

// --- growth ---

// Clients that draft large trees all at once, in too little memory.
class GrowthTest : public SessionMemoryTest {
 protected:
  struct Peer {
    Client client;
    Tokens prompt;
    Tokens expected;
    Tokens answer = {};
    Tokens sent = {};
    std::uint32_t round = 0;
    std::uint32_t refills = 0;

    bool done() const { return answer.size() >= expected.size(); }
  };

  void refill(PassLoop& server, Peer& peer) {
    Tokens all = peer.prompt;
    all.insert(all.end(), peer.answer.begin(), peer.answer.end());
    peer.sent.clear();
    ask(server, peer.client, ++peer.round, all);
  }

  // A full tree with two right tokens in it.
  void draft_widely(PassLoop& server, Peer& peer) {
    peer.sent.clear();
    std::vector<std::uint8_t> parents;
    for (std::size_t i = peer.answer.size(); i < peer.expected.size() && peer.sent.size() < 2;
         ++i) {
      parents.push_back(static_cast<std::uint8_t>(peer.sent.size()));
      peer.sent.push_back(peer.expected[i]);
    }
    while (peer.sent.size() < kDraftNodesMax) {
      parents.push_back(static_cast<std::uint8_t>(random_.below(peer.sent.size() + 1)));
      peer.sent.push_back(static_cast<std::uint32_t>(random_.below(kToyVocabulary)));
    }
    server.begin(peer.client,
                 wire::Draft{.round = ++peer.round,
                             .base_length = length(peer.client),
                             .tokens = peer.sent,
                             .parents = parents},
                 now_);
  }

  // Everybody asks at once and then drafts as fast as it goes. Returns how often sessions had to be
  // filled again.
  std::uint32_t serve(std::uint32_t peer_count, std::uint32_t prompt_count,
                      std::size_t answer_count) {
    PassLoop server = loop(kLeastPages);
    const std::uint64_t refused_before = refused(Refused::session_unknown);
    std::deque<Peer> peers;
    for (std::uint64_t id = 1; id <= peer_count; ++id) {
      Peer peer{.client = client(id), .prompt = random_tokens(prompt_count), .expected = {}};
      peer.expected = alone(peer.prompt, answer_count);
      peers.push_back(std::move(peer));
    }
    for (Peer& peer : peers) refill(server, peer);
    std::uint32_t refills = 0;
    const auto all_done = [&] {
      return std::all_of(peers.begin(), peers.end(), [](const Peer& p) { return p.done(); });
    };
    for (int step = 0; !all_done(); ++step) {
      if (step == 20000) {
        ADD_FAILURE() << "nobody gets on";
        break;
      }
      server.step();
      now_ += std::chrono::milliseconds(5);
      EXPECT_LE(server.memory().pages_held, kLeastPages);
      for (Peer& peer : peers) {
        auto& news = inboxes_.at(peer.client.connection_id)->news;
        if (news.empty()) continue;
        const auto what = std::move(news.front());
        news.clear();
        if (const auto* refusal = std::get_if<Refusal>(&what)) {
          EXPECT_EQ(refusal->error.code, Errc::session_unknown) << refusal->error.message;
          ++refills;
          refill(server, peer);
          continue;
        }
        const auto& verdict = std::get<wire::Verdict>(what);
        for (const std::uint8_t row : verdict.path) peer.answer.push_back(peer.sent[row - 1]);
        peer.answer.push_back(verdict.next);
        if (!peer.done()) {
          draft_widely(server, peer);
          continue;
        }
        peer.answer.resize(peer.expected.size());
        EXPECT_EQ(peer.answer, peer.expected);
        server.end(peer.client.connection_id);
      }
    }
    EXPECT_EQ(server.waiting_count(), 0u);
    EXPECT_EQ(refused(Refused::session_unknown) - refused_before, refills);
    return refills;
  }
};

// Each alone could grow; together neither can. The one that came first goes on.
TEST_F(GrowthTest, TwoThatBothWaitToGrowBothFinish) {
  EXPECT_GT(serve(2, 150, 100), 0u);
}

TEST_F(GrowthTest, ManyInTheSmallestPoolAllFinish) {
  serve(12, 60, 40);
  serve(6, 200, 20);
}

}  // namespace
}  // namespace edgedraft
