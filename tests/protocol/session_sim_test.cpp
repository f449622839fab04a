#include <gtest/gtest.h>

#include <map>

#include "tests/protocol/session_support.h"

// A client and a server session joined by a pipe that splits, delays and drops their bytes. A toy
// target decides acceptance, so every byte of every answer can be checked at the other end.
namespace edgedraft {
namespace {

// The target's token at a position, independent of the text before it.
std::uint32_t target_token(std::uint32_t position) {
  return static_cast<std::uint32_t>(mix64(position + 1) % 50);
}

// One direction of a byte stream.
class Pipe {
 public:
  void put(Bytes bytes) { bytes_.insert(bytes_.end(), bytes.begin(), bytes.end()); }
  bool empty() const { return bytes_.empty(); }

  Bytes take(Random& random) {
    std::size_t count = 1;
    switch (random.below(3)) {
      case 0:
        break;
      case 1:
        count = 1 + random.below(100);
        break;
      case 2:
        count = bytes_.size();
        break;
    }
    count = std::min(count, bytes_.size());
    Bytes taken(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(count));
    bytes_.erase(bytes_.begin(), bytes_.begin() + static_cast<std::ptrdiff_t>(count));
    return taken;
  }

 private:
  Bytes bytes_;
};

// Sessions that the server keeps after a connection breaks.
using Store = std::map<wire::SessionId, std::vector<std::uint32_t>>;

// The server's application: checks against target_token() and answers after a delay.
class ToyServer {
 public:
  ToyServer(Store& store, wire::SessionId id) : store_(store), id_(id) {}

  void on_event(ServerProtocol& protocol, ServerEvent event) {
    alone_left_ = 0;
    if (std::holds_alternative<HelloReceived>(event)) {
      wire::Welcome welcome = small_welcome();
      welcome.session = id_;
      protocol.accept(welcome);
    } else if (auto* prefill = std::get_if<PrefillRequested>(&event)) {
      auto& held = store_[id_];
      held.resize(prefill->request.base_length);
      fill(protocol, prefill->request);
    } else if (auto* resume = std::get_if<ResumeRequested>(&event)) {
      on_resume(protocol, resume->request);
    } else if (auto* received = std::get_if<HintsReceived>(&event)) {
      on_hints(protocol, received->hints);
    }
  }

  // Sends the next verdict of a free-running run.
  void go_on_alone(ServerProtocol& protocol, Random& random) {
    if (alone_left_ == 0) return;
    auto& held = store_[id_];
    const auto room = small_welcome().context_count - static_cast<std::uint32_t>(held.size());
    if (room == 0) return;
    const auto count =
        static_cast<std::uint32_t>(1 + random.below(std::min({alone_left_, room, 4u})));
    wire::Verdict verdict{.round = alone_round_, .drafted = count - 1};
    for (std::uint32_t i = 0; i < count; ++i) {
      if (i > 0) verdict.tokens.push_back(verdict.next);
      verdict.next = target_token(static_cast<std::uint32_t>(held.size()));
      held.push_back(verdict.next);
    }
    alone_left_ -= count;
    ASSERT_TRUE(protocol.verdict(verdict));
  }

  // Sends the next chunk of activations, if any are left.
  void stream(ServerProtocol& protocol, Random& random) {
    if (end_ == first_) return;
    const auto count = static_cast<std::uint32_t>(1 + random.below(end_ - first_));
    if (protocol.activations(chunk_of(round_, end_ - count, count))) {
      end_ -= count;
    } else {
      end_ = first_;
    }
  }

 private:
  void on_resume(ServerProtocol& protocol, const wire::Resume& request) {
    const auto found = store_.find(request.session);
    const bool known = found != store_.end() && found->second.size() >= request.verified_length &&
                       token_hash(std::span(found->second).first(request.verified_length)) ==
                           request.verified_hash;
    if (!known) {
      protocol.refuse(request.round, {Errc::session_unknown, "forgotten"});
      return;
    }
    id_ = request.session;
    store_[id_].resize(request.verified_length);
    fill(protocol, {.round = request.round,
                    .base_length = request.verified_length,
                    .tokens = request.tokens,
                    .provisional_count = static_cast<std::uint32_t>(request.tokens.size()),
                    .policy = request.policy,
                    .activations_from = request.activations_from,
                    .run = request.run});
  }

  void fill(ServerProtocol& protocol, const wire::Prefill& request) {
    auto& held = store_[id_];
    const std::uint32_t given =
        static_cast<std::uint32_t>(request.tokens.size()) - request.provisional_count;
    const auto& ids = request.tokens;
    held.insert(held.end(), ids.begin(), ids.begin() + given);
    wire::Verdict verdict{.round = request.round};
    for (std::uint32_t i = given; i < ids.size(); ++i) {
      if (request.policy == wire::ResyncPolicy::check &&
          ids[i] != target_token(static_cast<std::uint32_t>(held.size()))) {
        break;
      }
      held.push_back(ids[i]);
      ++verdict.accepted_count;
    }
    first_ = request.activations_from;
    end_ = static_cast<std::uint32_t>(held.size());
    round_ = request.round;
    verdict.next = target_token(end_);
    held.push_back(verdict.next);
    protocol.verdict(verdict);  // dropped if a Cancel followed the request
    if (request.run.hold == wire::Hold::lockstep) return;
    alone_round_ = request.round;
    alone_left_ = request.run.credit - std::min(request.run.credit, end_ + 1);
  }

  void on_hints(ServerProtocol& protocol, const wire::Hints& request) {
    auto& held = store_[id_];
    const auto root = static_cast<std::uint32_t>(held.size()) - 1;
    wire::Verdict verdict{.round = request.round};
    for (const auto& [token, distance, score] : request.nodes) {
      if (token != target_token(static_cast<std::uint32_t>(held.size()))) break;
      verdict.tokens.push_back(token);
      held.push_back(token);
    }
    verdict.activations = packed_rows(root, static_cast<std::uint32_t>(verdict.tokens.size()) + 1);
    verdict.next = target_token(static_cast<std::uint32_t>(held.size()));
    held.push_back(verdict.next);
    protocol.verdict(verdict);  // dropped if a Cancel followed the request
  }

  Store& store_;
  wire::SessionId id_;
  std::uint32_t alone_round_ = 0;
  std::uint32_t alone_left_ = 0;
  std::uint32_t round_ = 0;
  std::uint32_t first_ = 0;
  std::uint32_t end_ = 0;
};

// The client's generation: drafts, cancels, writes offline, resumes; holds every token.
class ToyClient {
 public:
  explicit ToyClient(std::uint32_t goal_count) : goal_count_(goal_count) {}

  bool done() const { return !verified_.empty() && verified_.size() >= goal_count_; }
  const std::vector<std::uint32_t>& verified() const { return verified_; }
  const std::vector<std::uint32_t>& prompt() const { return prompt_; }

  void disconnected(Random& random) {
    offline_.clear();
    // Some offline tokens are right by chance.
    const std::uint64_t count = verified_.empty() ? 0 : random.below(4);
    for (std::uint64_t i = 0; i < count; ++i) {
      const auto position = static_cast<std::uint32_t>(verified_.size() + offline_.size());
      offline_.push_back(random.below(4) == 0 ? 99 : target_token(position));
    }
    drop_unconfirmed();
  }

  void on_event(ClientProtocol& protocol, ClientEvent event) {
    if (std::holds_alternative<Welcomed>(event)) {
      in_run_ = is_due_ = false;
      may_resume_ = !verified_.empty();
    } else if (auto* verdict = std::get_if<VerdictReceived>(&event)) {
      on_verdict(protocol, *verdict);
    } else if (auto* chunk = std::get_if<ActivationsReceived>(&event)) {
      take_rows(chunk->first, chunk->rows);
      if (chunk->complete) lacking_from_ = static_cast<std::uint32_t>(verified_.size());
    } else {
      ASSERT_EQ(std::get<RequestRefused>(event).error.code, Errc::session_unknown);
      may_resume_ = false;
    }
  }

  // Sends a request, or cancels the current one.
  void act(ClientProtocol& protocol, Random& random) {
    if (!protocol.ready() || done()) return;
    if (!protocol.in_flight()) {
      request_fill(protocol, random);
    } else if (random.below(40) == 0) {
      protocol.cancel();
      drop_unconfirmed();
      may_resume_ = false;
      is_due_ = in_run_ = false;
    } else if (in_run_ && random.below(40) == 0) {
      // Does not mention the run.
      may_resume_ = false;
      request_fill(protocol, random);
    } else if (in_run_ && is_due_) {
      send_hints(protocol, random);
    }
  }

 private:
  void drop_unconfirmed() {
    rows_.clear();
    lacking_from_ = 0;
  }

  void request_fill(ClientProtocol& protocol, Random& random) {
    drop_unconfirmed();
    in_run_ = is_due_ = false;
    in_lockstep_ = random.below(4) != 0;
    const wire::RunTerms run{.credit = small_welcome().context_count,
                             .rows = in_lockstep_,
                             .hold = in_lockstep_ ? wire::Hold::lockstep : wire::Hold::none};
    if (may_resume_) {
      sent_.assign(offline_.begin(), offline_.end());
      ASSERT_TRUE(protocol.resume(
          outgoing(wire::Resume{.session = session_id_,
                                .verified_length = static_cast<std::uint32_t>(verified_.size()),
                                .tokens = sent_,
                                .run = run},
                   verified_)));
      return;
    }
    const std::uint32_t base =
        std::min<std::uint32_t>(protocol.length(), static_cast<std::uint32_t>(verified_.size()));
    std::vector<std::uint32_t> all = verified_.empty() ? prompt_ : verified_;
    all.insert(all.end(), offline_.begin(), offline_.end());
    sent_.assign(all.begin() + base, all.end());
    if (sent_.empty() && base == 0) return;
    base_ = base;
    ASSERT_TRUE(protocol.prefill(
        outgoing(wire::Prefill{.base_length = base,
                               .tokens = sent_,
                               .provisional_count = static_cast<std::uint32_t>(offline_.size()),
                               .run = run})));
  }

  void send_hints(ClientProtocol& protocol, Random& random) {
    const auto base = static_cast<std::uint32_t>(verified_.size());
    ASSERT_EQ(protocol.length(), base);
    // The last token leaves no position for the target's own token after it.
    const std::uint64_t most = std::min<std::uint64_t>(6, small_welcome().context_count - base);
    wire::Hints hints =
        chain_of(0, base, most == 0 ? 0 : static_cast<std::uint32_t>(random.below(most)));
    for (std::uint32_t i = 0; i < hints.nodes.size(); ++i) {
      hints.nodes[i].token = random.below(3) == 0 ? 98 : target_token(base + i);
    }
    is_due_ = false;
    ASSERT_TRUE(protocol.hints(outgoing(hints)));
  }

  void on_verdict(ClientProtocol& protocol, const VerdictReceived& event) {
    in_run_ = event.more;
    is_due_ = in_lockstep_;
    if (event.to == VerdictReceived::To::run) {
      for (const std::uint32_t token : event.verdict.tokens) verified_.push_back(token);
      take_rows(event.rows_first, event.rows);
    } else {
      const std::size_t given = sent_.size() - offline_.size();
      if (event.to == VerdictReceived::To::prefill) {
        verified_.resize(std::min<std::size_t>(verified_.size(), base_));
        verified_.insert(verified_.end(), sent_.begin(),
                         sent_.begin() + static_cast<std::ptrdiff_t>(given));
      }
      verified_.insert(verified_.end(), offline_.begin(),
                       offline_.begin() + event.verdict.accepted_count);
      offline_.clear();
      session_id_ = protocol.session_id();
    }
    verified_.push_back(event.verdict.next);
    ASSERT_EQ(event.verdict.length, verified_.size());
  }

  // Rows arrive at most once per position after a prefill and match their position.
  void take_rows(std::uint32_t first, std::span<const float> rows) {
    const std::uint32_t cols = small_layout().cols();
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const auto position = first + static_cast<std::uint32_t>(i / cols);
      if (i % cols == 0) {
        ASSERT_TRUE(rows_.emplace(position, true).second) << position;
      }
      ASSERT_NEAR(rows[i], rows_of(position, 1)[i % cols], 0.5f);
    }
  }

  std::uint32_t goal_count_;
  std::vector<std::uint32_t> prompt_ = {1, 2, 3, 4, 5, 6, 7};
  std::vector<std::uint32_t> verified_;
  std::vector<std::uint32_t> offline_;
  std::vector<std::uint32_t> sent_;
  std::uint32_t base_ = 0;
  std::map<std::uint32_t, bool> rows_;
  std::uint32_t lacking_from_ = 0;
  wire::SessionId session_id_{};
  bool may_resume_ = false;
  bool in_run_ = false;
  bool in_lockstep_ = false;
  bool is_due_ = false;  // the server waits for hints
};

class SessionSim : public ::testing::TestWithParam<std::uint64_t> {};

// For any split of the bytes and any break of the link, the client gets exactly the target's
// tokens. Neither side reports a fault.
TEST_P(SessionSim, OutputMatchesTargetOverAnyLink) {
  Random random(GetParam());
  ToyClient client(/*goal_count=*/70);
  Store store;
  Instant now = kStart;
  std::uint8_t next_id = 1;
  for (int connection = 0; connection < 200 && !client.done(); ++connection) {
    ClientProtocol client_protocol({.hello = {}, .channel = {}}, now);
    ServerProtocol server_protocol({}, now);
    wire::SessionId id{};
    id.fill(std::byte{next_id++});
    ToyServer server(store, id);
    Pipe up;
    Pipe down;
    const std::uint64_t steps = 50 + random.below(600);
    for (std::uint64_t step = 0; step < steps && !client.done(); ++step) {
      now += std::chrono::milliseconds(random.below(30));
      ASSERT_TRUE(client_protocol.tick(now));
      ASSERT_TRUE(server_protocol.tick(now));
      client.act(client_protocol, random);
      if (client_protocol.has_output()) up.put(client_protocol.take_output());
      if (server_protocol.has_output()) down.put(server_protocol.take_output());
      if (!up.empty() && random.below(2) == 0) {
        const auto received = server_protocol.receive(now, up.take(random));
        ASSERT_TRUE(received) << received.error().message;
        while (auto event = server_protocol.next_event()) {
          server.on_event(server_protocol, *std::move(event));
        }
      }
      if (random.below(4) == 0) server.stream(server_protocol, random);
      if (random.below(6) == 0) server.go_on_alone(server_protocol, random);
      if (!down.empty() && random.below(2) == 0) {
        const auto received = client_protocol.receive(now, down.take(random));
        ASSERT_TRUE(received) << received.error().message;
        while (auto event = client_protocol.next_event()) {
          client.on_event(client_protocol, *std::move(event));
        }
      }
      if (HasFatalFailure()) return;
    }
    client.disconnected(random);
    if (random.below(3) == 0) store.clear();  // the server was restarted
  }
  ASSERT_TRUE(client.done());
  for (std::uint32_t i = 0; i < client.verified().size(); ++i) {
    const bool prompt = i < client.prompt().size();
    ASSERT_EQ(client.verified()[i], prompt ? client.prompt()[i] : target_token(i)) << i;
  }
}

INSTANTIATE_TEST_SUITE_P(Seeds, SessionSim, ::testing::Range<std::uint64_t>(0, 200));

// TLS would detect flipped bits; the sessions must survive them anyway.
TEST_P(SessionSim, FlippedBitsNeverCrashEitherSide) {
  Random random(GetParam() + 1'000'000);
  ClientProtocol client_protocol({.hello = {}, .channel = {}}, kStart);
  ServerProtocol server_protocol({}, kStart);
  Store store;
  ToyServer server(store, {});
  ToyClient client(70);
  for (int step = 0; step < 400; ++step) {
    client.act(client_protocol, random);
    Bytes up = client_protocol.has_output() ? client_protocol.take_output() : Bytes();
    if (!up.empty() && random.below(5) == 0) {
      up[random.below(up.size())] ^= static_cast<std::byte>(1u << random.below(8));
    }
    if (!server_protocol.receive(kStart, up)) return;
    while (auto event = server_protocol.next_event()) {
      // Damage may request what the toy cannot do, but never what the session forbids.
      server.on_event(server_protocol, *std::move(event));
    }
    server.go_on_alone(server_protocol, random);
    Bytes down = server_protocol.has_output() ? server_protocol.take_output() : Bytes();
    if (!client_protocol.receive(kStart, down)) return;
    while (auto event = client_protocol.next_event()) {
      client.on_event(client_protocol, *std::move(event));
    }
    if (client.done() || HasFatalFailure()) return;
  }
}

}  // namespace
}  // namespace edgedraft
