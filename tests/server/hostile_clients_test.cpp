// Arbitrary requests, in any order, from signed-in clients: the server survives and serves the
// others.
#include <gtest/gtest.h>

#include <algorithm>

#include "server/passes/pass_loop.h"
#include "server/proposers/probing_methods.h"
#include "tests/protocol/support.h"
#include "tests/server/plain_answer.h"
#include "tests/server/raw_client.h"
#include "tests/server/toy_session.h"
#include "tests/support/toy_models.h"

namespace edgedraft::server {
namespace {

using namespace std::chrono_literals;
using testing::kToyVocabulary;
using testing::RawClient;
using Tokens = std::vector<std::uint32_t>;

// Rows so wide that a chunk holds few of them.
testing::TapBy wide_tap() {
  return {16384, [](std::uint32_t, std::span<float> rows) { std::ranges::fill(rows, 1.0f); }};
}

class HostileClientsTest : public testing::ToyTargetTest<256> {
 protected:
  struct Options {
    std::uint32_t pages = 8 * kLeastPages;
    std::uint32_t sessions_max = 64;
    std::uint32_t waiting_max = 64;
    Duration wait_max{};
    const ProbingMethodKind* method = nullptr;  // for drafting in streams
  };

  void open(const Options& options) {
    clients_.clear();
    const SessionParts parts{.decoder = decoder_,
                             .context_count = kContext,
                             .is_end = [](std::uint32_t) { return false; }};
    const std::uint64_t page = SessionStore::session_bytes(parts) / kLeastPages;
    speculation_.reset();
    if (options.method != nullptr) {
      speculation_.emplace(probing_source(*options.method, parts.is_end),
                           SpeculationOptions{.context_count = kContext});
    }
    loop_.emplace(parts,
                  PassLoopOptions{.sessions = {.sessions_max = options.sessions_max,
                                               .kv_bytes_max = options.pages * page,
                                               .waiting_max = options.waiting_max},
                                  .wait_max = options.wait_max,
                                  .speculation = speculation_ ? &*speculation_ : nullptr,
                                  .on_session_fault =
                                      [this](const std::string& why) { faults_.push_back(why); },
                                  .metrics = metrics_},
                  [this] { return now_; });
  }

  RawClient& connect(std::string identity = "someone", Tap* tap = nullptr) {
    clients_.push_back(
        std::make_unique<RawClient>(*loop_,
                                    RawClient::Options{.id = ++last_id_,
                                                       .context_count = kContext,
                                                       .tap = tap,
                                                       .identity = std::move(identity)},
                                    [this] { return now_; }));
    return *clients_.back();
  }

  void run() {
    for (int i = 0; i < 2000 && !loop_->idle(); ++i) loop_->step();
  }

  static Tokens some_tokens(std::uint32_t count, std::uint32_t seed = 1) {
    Random random(seed);
    return testing::random_tokens(random, count);
  }
  static wire::Prefill prompt(const Tokens& tokens, std::uint32_t base = 0,
                              const wire::RunTerms& run = {}) {
    return {.base_length = base, .tokens = tokens, .run = run};
  }
  // The tokens that the client knows after the answer to a prompt of `count` tokens.
  Tokens begin(RawClient& client, std::uint32_t count) {
    client.send(prompt(some_tokens(count)));
    run();
    Tokens held = some_tokens(count);
    held.push_back(std::get<wire::Verdict>(client.heard.at(0)).next);
    return held;
  }
  static wire::Prefill in_lockstep(const Tokens& tokens) {
    return prompt(tokens, 0, {.credit = kContext, .hold = wire::Hold::lockstep});
  }
  // Continues with `tokens` more tokens.
  static wire::Prefill go_on(const RawClient& of, std::uint32_t tokens) {
    const std::uint32_t length = of.protocol().length();
    return prompt({}, length, {.credit = length + tokens});
  }
  static wire::Resume resume(const RawClient& of, const Tokens& held, const Tokens& more = {}) {
    return {.session = of.client().session,
            .verified_length = static_cast<std::uint32_t>(held.size()),
            .tokens = more};
  }

  // The code of the only refusal received; empty after any other reply.
  static std::optional<Errc> refusal(RawClient& client) {
    const auto heard = std::exchange(client.heard, {});
    if (heard.size() != 1) return std::nullopt;
    const auto* report = std::get_if<wire::ErrorReport>(&heard[0]);
    return report == nullptr ? std::nullopt : std::optional(report->code);
  }
  // A well-behaved client gets the same answer as a client alone.
  void expect_service() {
    RawClient& honest = connect("honest");
    const Tokens text = some_tokens(20, 99);
    const Tokens expected =
        testing::plain_answer({decoder_, kContext, [](std::uint32_t) { return false; }}, text, 4);
    ASSERT_TRUE(honest.send(in_lockstep(text)));
    run();
    Tokens answer;
    for (std::size_t i = 0;; ++i) {
      const auto heard = std::exchange(honest.heard, {});
      ASSERT_EQ(heard.size(), 1u);
      const auto* verdict = std::get_if<wire::Verdict>(&heard[0]);
      ASSERT_NE(verdict, nullptr);
      answer.push_back(verdict->next);
      if (answer.size() == expected.size()) break;
      ASSERT_TRUE(honest.complete());
      run();
    }
    EXPECT_EQ(answer, expected);
    honest.leave();
  }

  Instant now_{1h};
  std::uint64_t last_id_ = 0;
  std::shared_ptr<Metrics> metrics_ = std::make_shared<Metrics>();
  std::vector<std::string> faults_;
  std::optional<Speculation> speculation_;
  std::optional<PassLoop> loop_;
  std::vector<std::unique_ptr<RawClient>> clients_;
};

// The refused prompt has already dropped the text that it was to replace, but its client assumes no
// change.
TEST_F(HostileClientsTest, RefusedPromptLeavesNoSessionToContinue) {
  open({.wait_max = 500ms});
  RawClient& client = connect();
  client.send(prompt(some_tokens(200)));
  run();
  client.heard.clear();
  client.send(prompt({}, 1));
  now_ += 600ms;
  run();
  EXPECT_EQ(refusal(client), Errc::refused);
  EXPECT_EQ(client.protocol().length(), 201u) << "the length is unchanged";
  for (const std::uint32_t tokens : {200u, 0u}) {
    client.send(go_on(client, tokens));
    run();
    EXPECT_EQ(refusal(client), Errc::session_unknown);
  }
  expect_service();
  // The client may send everything again.
  client.send(prompt(some_tokens(200)));
  run();
  EXPECT_EQ(client.verdict_count, 2u);
  EXPECT_TRUE(faults_.empty());
}

TEST_F(HostileClientsTest, TimedOutPassLeavesSessionUnchanged) {
  open({.wait_max = 500ms});
  RawClient& client = connect();
  client.send(in_lockstep(some_tokens(20)));
  run();
  client.heard.clear();
  client.complete(std::vector<HintNode>(3, {.token = 5}));
  now_ += 600ms;
  run();
  EXPECT_EQ(refusal(client), Errc::refused);
  client.send(go_on(client, 0));
  run();
  EXPECT_EQ(client.verdict_count, 2u);
}

// Each pass takes one complete message, for the length reported to the client.
TEST_F(HostileClientsTest, UnexpectedCompleteHintsEndConnection) {
  open({});
  for (const bool repeated : {false, true}) {
    RawClient& client = connect();
    client.send(in_lockstep(some_tokens(20)));
    run();
    ASSERT_TRUE(client.complete({{.token = 5}}));
    if (repeated) {
      EXPECT_FALSE(client.complete({{.token = 5}}));
    } else {
      run();
      EXPECT_FALSE(
          client.send(wire::Hints{.round = client.round(), .complete = true, .position = 21}));
    }
    EXPECT_EQ(loop_->active_count(), 0u);
    expect_service();
  }
}

// The protocol blocks a second request per connection. If one arrives anyway, the session is
// inconsistent: it is dropped together with the request in progress.
TEST_F(HostileClientsTest, SecondRequestCostsOnlyItsSession) {
  const auto refused = [&](Refusal why) {
    return metrics_->refusals[static_cast<std::size_t>(why)].value();
  };
  std::uint32_t count = 0;
  for (const TargetWork& second :
       {TargetWork(wire::Prefill{.round = 3, .tokens = some_tokens(5)}),
        TargetWork(wire::Resume{.round = 3, .verified_length = 1, .tokens = some_tokens(5)})}) {
    open({});
    RawClient& client = connect();
    client.send(in_lockstep(some_tokens(20)));
    run();
    client.complete(std::vector<HintNode>(3, {.token = 5}));
    RawClient& other = connect();
    other.send(prompt(some_tokens(30, 2)));
    ASSERT_EQ(loop_->active_count(), 2u);
    loop_->begin(client.client(), second, now_);
    ++count;
    EXPECT_EQ(faults_.size(), count);
    EXPECT_EQ(refused(Refusal::fault), count);
    EXPECT_EQ(loop_->active_count(), 1u) << "the other client's request";
    run();
    EXPECT_EQ(other.verdict_count, 1u);
    loop_->begin(client.client(), wire::Prefill{.round = 4, .base_length = 21}, now_);
    EXPECT_EQ(refused(Refusal::session_unknown), count);
    expect_service();
  }
}

TEST_F(HostileClientsTest, PausedRunsGiveMemoryToReadingClients) {
  open({.pages = kLeastPages});
  std::vector<RawClient*> silent;
  for (std::uint32_t seed = 1; seed <= 2; ++seed) {
    silent.push_back(&connect("silent"));
    silent.back()->reads(false);
    silent.back()->send(prompt(some_tokens(200, seed), 0, {.credit = 250}));
    run();
    silent.back()->heard.clear();
  }
  RawClient& client = connect();
  client.send(in_lockstep(some_tokens(20, 3)));
  run();
  ASSERT_EQ(client.verdict_count, 1u);
  client.complete(std::vector<HintNode>(kDraftNodesMax, {.token = 5}));
  run();
  EXPECT_EQ(client.verdict_count, 2u);
  const auto gave_way = std::count_if(silent.begin(), silent.end(), [](RawClient* paused) {
    return refusal(*paused) == Errc::session_unknown;
  });
  EXPECT_GE(gave_way, 1);
  expect_service();
}

TEST_F(HostileClientsTest, ResumingAnotherSessionReleasesOwnOne) {
  open({.sessions_max = 4});
  RawClient& first = connect();
  const Tokens held = begin(first, 20);
  for (std::uint32_t i = 0; i < 10; ++i) {
    RawClient& again = connect();
    again.send(prompt(some_tokens(10, 2 + i)));
    run();
    ASSERT_EQ(again.verdict_count, 1u) << i;
    again.send(resume(first, held), held);
    run();
    ASSERT_EQ(again.verdict_count, 2u) << i;
    again.leave();
    now_ += 10ms;
  }
  expect_service();
}

TEST_F(HostileClientsTest, AnswersEachOfSeveralConcurrentResumes) {
  open({});
  RawClient& first = connect();
  const Tokens held = begin(first, 20);
  std::vector<RawClient*> resuming;
  for (int i = 0; i < 4; ++i) {
    resuming.push_back(&connect());
    resuming.back()->send(resume(first, held, {5, 6}), held);
  }
  run();
  for (RawClient* client : resuming) {
    EXPECT_EQ(client->verdict_count + client->refusal_count, 1u);
  }
  EXPECT_EQ(resuming.back()->verdict_count, 1u) << "the last one has the session";
  EXPECT_EQ(refusal(*resuming.front()), Errc::session_unknown);
  // Includes one during an answer.
  resuming.back()->send(go_on(*resuming.back(), 20));
  loop_->step();
  resuming.back()->heard.clear();
  RawClient& other = connect();
  other.send(resume(first, held), held);
  EXPECT_EQ(refusal(*resuming.back()), Errc::session_unknown);
}

// Its id and text are right, and even its age: only the identity differs.
TEST_F(HostileClientsTest, ResumeWithAnotherTenantsSessionIdFindsNothing) {
  open({});
  RawClient& owner = connect("owner");
  const Tokens held = begin(owner, 20);
  owner.leave();
  RawClient& thief = connect("thief");
  thief.send(resume(owner, held, {5, 6}), held);
  run();
  EXPECT_EQ(refusal(thief), Errc::session_unknown);
  RawClient& again = connect("owner");
  again.send(resume(owner, held, {5, 6}), held);
  run();
  EXPECT_EQ(again.verdict_count, 1u) << "the attempt took nothing from its owner";
  expect_service();
}

// Rows of a long prompt are still pending when its client switches to a shorter session.
TEST_F(HostileClientsTest, NeverReadsRowsFromAnotherSession) {
  open({});
  testing::TapBy tap = wide_tap();
  RawClient& brief = connect("someone", &tap);
  const Tokens held = begin(brief, 4);
  RawClient& client = connect("someone", &tap);
  client.send(prompt(some_tokens(240, 2)));
  while (client.verdict_count == 0) loop_->step();
  ASSERT_FALSE(loop_->idle());
  client.send(resume(brief, held, {kToyVocabulary + 7}), held);
  EXPECT_EQ(client.refusal_count, 1u);
  run();
  expect_service();
}

TEST_F(HostileClientsTest, RefusesRequestsBeyondFullContext) {
  open({});
  RawClient& client = connect();
  client.send(prompt(some_tokens(kContext - 1)));
  run();
  ASSERT_EQ(client.verdict_count, 1u);
  client.send(prompt({}, kContext));
  run();
  EXPECT_EQ(client.refusal_count, 1u);
  client.send(prompt({}, kContext - 1));
  run();
  EXPECT_EQ(client.verdict_count, 2u);
  EXPECT_TRUE(client.complete()) << "hints may cross the answer's end";
  EXPECT_EQ(loop_->active_count(), 0u);
  expect_service();
}

// Any requests that the protocol's order allows, from many connections, with little of every
// resource. All connections of an identity may resume its sessions.
TEST_F(HostileClientsTest, SurvivesAnyOrderOfRequests) {
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    SCOPED_TRACE(seed);
    Random random(seed);
    testing::TapBy tap = wide_tap();
    open({.pages = kLeastPages + static_cast<std::uint32_t>(random.below(2 * kLeastPages)),
          .sessions_max = 6,
          .waiting_max = 3,
          .wait_max = 400ms,
          .method =
              seed % 2 == 0 ? &probing_methods()[seed / 2 % probing_methods().size()] : nullptr});
    const auto below = [&](std::uint64_t n) { return static_cast<std::uint32_t>(random.below(n)); };
    const auto tokens = [&](std::uint32_t count) {
      Tokens all(count);
      for (auto& t : all) t = below(50) == 0 ? kToyVocabulary + 3 : 3 + below(4);
      return all;
    };
    struct Peer {
      RawClient* client;
      Tokens held{};  // tokens of its session, if all went well
      Tokens asked{};
      wire::RunTerms run{};
    };
    const auto terms = [&] {
      return wire::RunTerms{.credit = below(2) == 0 ? 0 : 1 + below(kContext),
                            .rows = below(2) == 0,
                            .hold = static_cast<wire::Hold>(below(3))};
    };
    std::vector<Peer> peers;
    for (int act = 0; act < 1500; ++act) {
      if (peers.size() < 5 || below(40) == 0) {
        peers.push_back({.client = &connect("hostile", below(2) == 0 ? &tap : nullptr)});
      }
      Peer& peer = peers[below(peers.size())];
      RawClient& client = *peer.client;
      const std::uint32_t length = client.protocol().length();
      switch (below(12)) {
        case 0:
        case 1:
          peer.asked = tokens(1 + below(below(3) == 0 ? kContext : 20));
          peer.run = terms();
          client.send(prompt(peer.asked, below(2) == 0 ? 0 : below(length + 1), peer.run));
          break;
        case 2:
          if (length == 0) break;
          peer.run = terms();
          client.send(prompt({}, 1 + below(length), peer.run));
          break;
        case 3: {
          wire::Prefill request = prompt(tokens(2 + below(30)), below(length + 1));
          request.provisional_count = 1 + below(request.tokens.size() - 1);
          request.policy = below(2) == 0 ? wire::ResyncPolicy::keep : wire::ResyncPolicy::check;
          request.sampling = {.temperature = 1.0f, .top_p = 0.5f, .seed = 1};
          request.run = peer.run = terms();
          client.send(request);
          break;
        }
        case 4: {
          const Peer& other = peers[below(peers.size())];
          const Tokens& asked = other.asked;
          const Tokens held(asked.begin(), asked.begin() + std::min<std::ptrdiff_t>(
                                                               std::ssize(asked), 1 + below(8)));
          if (held.empty()) break;
          wire::Resume request = resume(*other.client, held, tokens(below(20)));
          request.run = peer.run = terms();
          client.send(request, held);
          break;
        }
        case 5:
        case 6:
        case 7: {
          if (!client.protocol().busy() || peer.run.credit == 0) break;
          std::vector<HintNode> nodes;
          for (const std::uint32_t token : tokens(below(kDraftNodesMax + 1))) {
            const auto distance = static_cast<std::uint16_t>(below(nodes.size() + 1));
            nodes.push_back({.token = token, .distance = distance, .score = 1});
          }
          if (peer.run.hold != wire::Hold::lockstep) {
            client.send(wire::Hints{.round = client.round(),
                                    .hold = static_cast<wire::Hold>(below(2)),
                                    .first = 1,
                                    .position = std::max(length, 1u),
                                    .nodes = nodes},
                        peer.asked);
          } else if (client.protocol().paused() && length < peer.run.credit) {
            client.complete(nodes);
          }
          break;
        }
        case 8:
          if (client.round() > 0) client.send(wire::Cancel());
          break;
        case 9:
          client.reads(below(2) == 0);
          break;
        case 10:
          now_ += std::chrono::milliseconds(below(300));
          break;
        case 11:
          if (below(4) == 0) client.leave();
          break;
      }
      if (below(3) != 0) loop_->step();
      std::erase_if(peers, [](const Peer& p) { return p.client->gone(); });
    }
    for (Peer& peer : peers) peer.client->leave();
    EXPECT_TRUE(faults_.empty()) << faults_[0];
    EXPECT_EQ(loop_->active_count(), 0u);
    EXPECT_EQ(loop_->waiting_count(), 0u);
    expect_service();
  }
}

}  // namespace
}  // namespace edgedraft::server
