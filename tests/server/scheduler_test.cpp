#include "server/passes/scheduler.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <functional>
#include <latch>
#include <set>

#include "tests/protocol/support.h"
#include "tests/server/plain_answer.h"
#include "tests/server/toy_session.h"
#include "tests/support/failing_backend.h"
#include "tests/support/heard_replies.h"
#include "tests/support/toy_models.h"

namespace edgedraft::server {
namespace {

using testing::kToyVocabulary;
using testing::random_tokens;
using testing::TapBy;
using testing::ToyDecoder;
using Tokens = std::vector<std::uint32_t>;

constexpr std::uint32_t kSchedulerContext = 160;
constexpr wire::RunTerms kLockstep{.credit = kSchedulerContext, .hold = wire::Hold::lockstep};

struct RefusedRound {
  std::uint32_t round;
  Error error;
};

struct Reply {
  std::uint64_t connection_id;
  std::variant<wire::Verdict, RefusedRound> what;
};

// Replies of all connections, in order.
class Inbox {
 public:
  void put(Reply reply) {
    {
      const std::lock_guard lock(mutex_);
      replies_.push_back(std::move(reply));
    }
    arrived_.notify_one();
  }

  // Empty if no reply arrives for a minute: the scheduler hangs.
  std::optional<Reply> take() {
    std::unique_lock lock(mutex_);
    if (!arrived_.wait_for(lock, std::chrono::minutes(1), [&] { return !replies_.empty(); })) {
      return std::nullopt;
    }
    Reply reply = std::move(replies_.front());
    replies_.pop_front();
    return reply;
  }

  std::shared_ptr<Replies> of(std::uint64_t connection_id);

 private:
  std::mutex mutex_;
  std::condition_variable arrived_;
  std::deque<Reply> replies_;
};

class ConnectionInbox final : public Replies {
 public:
  ConnectionInbox(Inbox& inbox, std::uint64_t id) : inbox_(inbox), id_(id) {}

  void verdict(wire::Verdict verdict) override { inbox_.put({id_, std::move(verdict)}); }
  void activations(wire::Activations) override { FAIL() << "activations without a tap"; }
  void refuse(std::uint32_t round, Error error) override {
    inbox_.put({id_, RefusedRound{round, std::move(error)}});
  }

 private:
  Inbox& inbox_;
  std::uint64_t id_;
};

std::shared_ptr<Replies> Inbox::of(std::uint64_t connection_id) {
  return std::make_shared<ConnectionInbox>(*this, connection_id);
}

class SchedulerTest : public ::testing::Test {
 protected:
  SessionParts parts() {
    return {.decoder = decoder_, .context_count = kSchedulerContext, .is_end = testing::is_toy_end};
  }

  Client client(std::uint64_t connection_id) {
    return testing::client_of(connection_id, inbox_.of(connection_id));
  }

  Tokens plain_answer(const Tokens& prompt, const SamplingParams& sampling, std::size_t count) {
    return testing::plain_answer(parts(), prompt, count, sampling);
  }

  static wire::Prefill prefill(std::uint32_t round, const Tokens& tokens,
                               const wire::RunTerms& run = {}) {
    return {.round = round, .tokens = tokens, .sampling = {.temperature = 0.0f}, .run = run};
  }

  Inbox inbox_;
  ToyDecoder toy_{1};
  testing::DeviceFault no_fault_{.operation = testing::Operation::allocate, .n = 0};
  testing::FailingBackend backend_{make_cpu_backend({.threads = 1}), no_fault_};
  Decoder decoder_{backend_, toy_.config, toy_.tensors, kSchedulerContext};
};

// A client that sends one prompt after another, drafts badly or well, and sometimes cancels,
// disconnects and comes back.
class SimulatedClient {
 public:
  struct Plan {
    Tokens prompt;
    SamplingParams sampling;
    Tokens answer;  // expected
  };

  SimulatedClient(std::uint64_t seed, std::vector<Plan> plans)
      : random_(seed), plans_(std::move(plans)) {}

  bool done() const { return plan_ == plans_.size(); }
  std::uint64_t connection() const { return connection_; }

  // Signs in on a new connection and continues, resuming a session if it has one.
  void connect(Scheduler& scheduler, const Client& as) {
    client_ = as;
    connection_ = as.connection_id;
    round_ = 0;
    if (plan().answer.empty() || answer_.empty()) {
      ask(scheduler);
      return;
    }
    const Tokens held = testing::joined(plan().prompt, answer_);
    resuming_ = true;
    // Text written while disconnected, partly right.
    Tokens offline;
    while (answer_.size() + offline.size() < plan().answer.size() && random_.below(4) != 0) {
      offline.push_back(random_.below(8) == 0 ? 5 : plan().answer[answer_.size() + offline.size()]);
    }
    offline_ = offline;
    const wire::Resume request{.round = ++round_,
                               .session = session_,
                               .verified_length = static_cast<std::uint32_t>(held.size()),
                               .verified_hash = token_hash(held),
                               .tokens = offline,
                               .sampling = sampling(),
                               .run = kLockstep};
    length_.asked(request);
    scheduler.post(*client_, request);
  }

  // Processes a reply and continues. Returns false if the client gives the connection up.
  bool hear(Scheduler& scheduler, const std::variant<wire::Verdict, RefusedRound>& what) {
    if (const auto* refusal = std::get_if<RefusedRound>(&what)) {
      if (refusal->round != round_) return true;  // refuses a cancelled round
      if (refusal->error.code == Errc::session_unknown) {
        ask(scheduler);
        return true;
      }
      EXPECT_EQ(refusal->error.code, Errc::refused) << refusal->error.message;
      return false;
    }
    const auto& verdict = std::get<wire::Verdict>(what);
    if (verdict.round != round_) return true;
    take(verdict);
    if (verdict.ending != wire::Ending::none || answer_.size() >= plan().answer.size()) {
      answer_.resize(std::min(answer_.size(), plan().answer.size()));
      EXPECT_EQ(answer_, plan().answer);
      ++plan_;
      answer_.clear();
      if (done()) return false;
      ask(scheduler);
      return true;
    }
    const std::uint64_t whim = random_.below(20);
    if (whim == 0) return false;
    draft(scheduler);
    if (whim == 2) return false;  // disconnects while the target verifies
    if (whim == 1) {              // cancels: no root is known then, so everything is sent again
      answer_.clear();
      ask(scheduler);
    }
    return true;
  }

 private:
  const Plan& plan() const { return plans_[plan_]; }
  SamplingParams sampling() const {
    return {.temperature = plan().sampling.temperature, .seed = plan().sampling.seed};
  }

  void ask(Scheduler& scheduler) {
    session_ = client_->session;
    // The known part of the answer is context when it is sent again.
    const Tokens tokens = testing::joined(plan().prompt, answer_);
    offline_.clear();
    resuming_ = false;
    if (round_ > 0) scheduler.cancel(connection_, round_);
    const wire::Prefill request{.round = ++round_,
                                .base_length = 0,
                                .tokens = tokens,
                                .sampling = sampling(),
                                .run = kLockstep};
    length_.asked(request);
    scheduler.post(*client_, request);
  }

  void draft(Scheduler& scheduler) {
    const std::size_t wanted = random_.below(30);
    wire::Hints hints{.round = round_, .complete = true, .position = length_.value()};
    std::size_t parent = 0;
    std::size_t at = answer_.size();
    while (hints.nodes.size() < wanted) {
      const std::size_t node = hints.nodes.size() + 1;
      if (at < plan().answer.size() && random_.below(3) == 0) {
        const auto distance = static_cast<std::uint16_t>(parent == 0 ? 0 : node - parent);
        hints.nodes.push_back({.token = plan().answer[at++], .distance = distance});
        parent = node;
      } else {
        hints.nodes.push_back({.token = static_cast<std::uint32_t>(random_.below(kToyVocabulary)),
                               .distance = static_cast<std::uint16_t>(random_.below(node))});
      }
    }
    scheduler.hints(connection_, hints);
  }

  void take(const wire::Verdict& verdict) {
    length_.heard(verdict);
    if (resuming_) {
      answer_.insert(answer_.end(), offline_.begin(), offline_.begin() + verdict.accepted_count);
      resuming_ = false;
    }
    answer_.insert(answer_.end(), verdict.tokens.begin(), verdict.tokens.end());
    answer_.push_back(verdict.next);
  }

  Random random_;
  std::vector<Plan> plans_;
  std::size_t plan_ = 0;
  std::optional<Client> client_;
  std::uint64_t connection_ = 0;
  wire::SessionId session_{};
  std::uint32_t round_ = 0;
  testing::HeldLength length_;
  bool resuming_ = false;
  Tokens offline_;
  Tokens answer_;
};

class ManyClientsTest : public SchedulerTest {
 protected:
  static constexpr std::size_t kClients = 64;

  // Prompts of any length, some with a common prefix.
  std::vector<SimulatedClient> make_clients() {
    Random random(3);
    const Tokens common = random_tokens(random, 70);
    std::vector<SimulatedClient> clients;
    for (std::size_t i = 0; i < kClients; ++i) {
      std::vector<SimulatedClient::Plan> plans(3);
      for (auto& plan : plans) {
        if (random.below(3) == 0) plan.prompt = common;
        const auto own = random_tokens(random, 1 + static_cast<std::uint32_t>(random.below(30)));
        plan.prompt.insert(plan.prompt.end(), own.begin(), own.end());
        plan.sampling = {.temperature = random.below(2) == 0 ? 0.0f : 1.0f, .seed = i};
        plan.answer = plain_answer(plan.prompt, plan.sampling, 1 + random.below(40));
      }
      clients.emplace_back(i, std::move(plans));
    }
    return clients;
  }

  // Serves until all answers are complete, with at most `connections_max` clients at a time.
  void serve(Scheduler& scheduler, std::vector<SimulatedClient>& clients,
             std::size_t connections_max);
};

void ManyClientsTest::serve(Scheduler& scheduler, std::vector<SimulatedClient>& clients,
                            std::size_t connections_max) {
  std::uint64_t connections = 0;
  std::map<std::uint64_t, std::size_t> who;
  std::deque<std::size_t> away;
  for (std::size_t i = 0; i < kClients; ++i) away.push_back(i);
  std::size_t done = 0;
  while (done < kClients) {
    while (!away.empty() && who.size() < connections_max) {
      const std::size_t i = away.front();
      away.pop_front();
      who[++connections] = i;
      clients[i].connect(scheduler, client(connections));
    }
    const auto reply = inbox_.take();
    ASSERT_TRUE(reply) << "no client gets an answer";
    const auto found = who.find(reply->connection_id);
    if (found == who.end()) continue;  // already disconnected
    SimulatedClient& heard = clients[found->second];
    if (heard.hear(scheduler, reply->what)) continue;
    scheduler.ended(reply->connection_id);
    if (heard.done()) {
      ++done;
    } else {
      away.push_back(found->second);
    }
    who.erase(found);
  }
}

// 24 sessions: every client gets the answers of a client alone, with an occasional refusal.
TEST_F(ManyClientsTest, GetSameAnswersAsSingleClient) {
  auto clients = make_clients();
  Scheduler scheduler(parts(), {.passes = {.sessions = {.sessions_max = 24, .kv_bytes_max = 0},
                                           .pass_rows_max = 64,
                                           .prompt_rows = 16},
                                .queue_max = 1000});
  serve(scheduler, clients, 28);
}

// All at once, in memory for about eight: they wait, are evicted and resume.
TEST_F(ManyClientsTest, StayWithinSmallMemoryLimit) {
  auto clients = make_clients();
  // From here on only the pool allocates.
  std::vector<std::uint32_t> tokens(kMaskRowsMax, 5);
  {
    KvCache cache = decoder_.make_cache();
    decoder_.append(cache, std::span(tokens).first(kSchedulerContext));
    decoder_.logits(0, kSchedulerContext);
  }
  const std::uint64_t before = backend_.allocated_floats();
  const std::uint64_t limit = 2 * SessionStore::session_bytes(parts());
  const auto metrics = std::make_shared<Metrics>();
  {
    Scheduler scheduler(parts(),
                        {.passes = {.sessions = {.sessions_max = 200,
                                                 .kv_bytes_max = limit,
                                                 // A session that is not at work may be evicted at
                                                 // once, however fast this machine is.
                                                 .idle_grace = {},
                                                 .patience = {}},
                                    .pass_rows_max = 64,
                                    .prompt_rows = 16,
                                    .metrics = metrics},
                         .queue_max = 1000});
    serve(scheduler, clients, kClients);
  }
  // DeviceProbe has a buffer of one number, and the logits of a pass are allocated at the start.
  const std::uint64_t others = 1 + std::uint64_t{kMaskRowsMax} * decoder_.config().head_rows();
  EXPECT_LE((backend_.allocated_floats() - before - others) * sizeof(float), limit);
  EXPECT_GT(metrics->evicted_sessions.value(), 0u);
}

// A short draft among long ones and endless prompts.
TEST_F(SchedulerTest, NeverOvertakesRequestMoreThanTwice) {
  Scheduler scheduler(parts(), {.passes = {.sessions = {.sessions_max = 64, .kv_bytes_max = 0},
                                           .pass_rows_max = 64,
                                           .prompt_rows = 16},
                                .queue_max = 1000});
  constexpr std::uint64_t kDrafting = 12;
  constexpr std::uint64_t kPrompting = 6;
  Random random(4);
  std::map<std::uint64_t, Client> clients;
  std::map<std::uint64_t, std::uint32_t> rounds;
  std::map<std::uint64_t, std::map<std::uint64_t, int>> overtaken;  // by client
  std::map<std::uint64_t, Tokens> prompts;
  std::map<std::uint64_t, testing::HeldLength> lengths;
  std::set<std::uint64_t> with_prompt;  // clients whose request is a prompt
  const auto ask = [&](std::uint64_t id) {
    with_prompt.insert(id);
    const wire::Prefill request =
        prefill(++rounds[id], prompts.at(id), id <= kDrafting ? kLockstep : wire::RunTerms());
    lengths[id].asked(request);
    scheduler.post(clients.at(id), request);
  };
  for (std::uint64_t id = 1; id <= kDrafting + kPrompting; ++id) {
    clients.emplace(id, client(id));
    prompts[id] = random_tokens(random, id <= kDrafting ? 3 : 150);
    ask(id);
  }
  std::map<std::uint64_t, int> verdicts;
  for (int i = 0; i < 4000; ++i) {
    const auto reply = inbox_.take();
    ASSERT_TRUE(reply);
    const auto* verdict = std::get_if<wire::Verdict>(&reply->what);
    ASSERT_NE(verdict, nullptr);
    const std::uint64_t id = reply->connection_id;
    ++verdicts[id];
    lengths[id].heard(*verdict);
    for (std::uint64_t other = 1; other <= kDrafting + kPrompting; ++other) {
      // Two drafts of another client: one that was queued earlier, and one in its own pass.
      if (other == id || with_prompt.contains(other) || with_prompt.contains(id)) continue;
      EXPECT_LE(++overtaken[other][id], 2) << other << " is overtaken by " << id;
    }
    overtaken[id].clear();
    if (id > kDrafting || verdict->ending != wire::Ending::none) {
      ask(id);
      continue;
    }
    wire::Hints hints{.round = rounds[id], .complete = true, .position = lengths[id].value()};
    const std::uint32_t nodes = id == 1 ? 1 : 40;
    while (hints.nodes.size() < nodes) {
      const auto distance = static_cast<std::uint16_t>(random.below(hints.nodes.size() + 1));
      hints.nodes.push_back({.token = static_cast<std::uint32_t>(random.below(kToyVocabulary)),
                             .distance = distance});
    }
    with_prompt.erase(id);
    scheduler.hints(id, hints);
  }
  for (std::uint64_t id = 1; id <= kDrafting + kPrompting; ++id) EXPECT_GE(verdicts[id], 20) << id;
}

// A connection that reads its prompts' rows only when released.
class RowsInbox final : public Replies {
 public:
  explicit RowsInbox(std::shared_ptr<Replies> verdicts) : verdicts_(std::move(verdicts)) {}

  void verdict(wire::Verdict verdict) override { verdicts_->verdict(std::move(verdict)); }
  void activations(wire::Activations) override { ++chunk_count; }
  void refuse(std::uint32_t round, Error error) override {
    verdicts_->refuse(round, std::move(error));
  }
  bool full_of_chunks() const override { return !reads; }

  std::atomic<bool> reads = false;
  std::atomic<int> chunk_count = 0;

 private:
  std::shared_ptr<Replies> verdicts_;
};

// Cancelled during a slow pass, before the scheduler has read the request.
TEST_F(SchedulerTest, CancelledRequestStopsRowsOfPreviousPrompt) {
  TapBy tap(8, [](std::uint32_t, std::span<float> rows) { std::ranges::fill(rows, 0.0f); });
  std::atomic<bool> hold = false;
  std::latch begun(1);
  std::latch end(1);
  Scheduler scheduler(parts(), {.passes = {.sessions = {.sessions_max = 64, .kv_bytes_max = 0},
                                           .pace =
                                               [&](std::uint32_t) {
                                                 if (hold.exchange(false)) {
                                                   begun.count_down();
                                                   end.wait();
                                                 }
                                                 return Duration::zero();
                                               }},
                                .queue_max = 100});
  Client fickle = client(1);
  const auto rows = std::make_shared<RowsInbox>(inbox_.of(1));
  fickle.reply = rows;
  fickle.tap = &tap;
  const auto expect_verdict = [&] {
    const auto reply = inbox_.take();
    ASSERT_TRUE(reply);
    EXPECT_TRUE(std::holds_alternative<wire::Verdict>(reply->what));
  };
  scheduler.post(fickle, prefill(1, {5, 6, 7}));
  expect_verdict();

  hold = true;
  scheduler.post(client(2), prefill(1, {5, 6, 7}));
  begun.wait();
  scheduler.post(fickle, wire::Prefill{.round = 2, .base_length = 4});
  scheduler.cancel(1, 2);
  end.count_down();
  expect_verdict();

  const auto serve_another = [&](std::uint64_t id) {
    scheduler.post(client(id), prefill(1, {5, 6, 7}));
    expect_verdict();
  };
  // A request queued after the cancellation is answered once that was processed.
  serve_another(3);
  rows->reads = true;
  // Each step ends by sending pending rows, and one such end lies between these two.
  serve_another(4);
  serve_another(5);
  EXPECT_EQ(rows->chunk_count, 0);
}

}  // namespace
}  // namespace edgedraft::server
