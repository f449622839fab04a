#include "tests/client/simulated_device.h"

#include <gtest/gtest.h>

#include <algorithm>

namespace edgedraft::testing {
namespace {

using namespace std::chrono_literals;

constexpr Duration kPassTime = 8ms;
constexpr Duration kReconnectPause = 1s;  // after a connection that timed out

}  // namespace

// Stands for ClientLink: both ends of the link and the network between.
class SimulatedDevice::Link final : public TargetLink {
 public:
  Link(SimulatedDevice& device, std::function<void()> wake)
      : device_(device), wake_(std::move(wake)) {
    for (const Outage& outage : device.options_.outages) {
      device.time_.at(device.start_ + outage.begin, [this] {
        is_out_ = true;
        cut();
      });
      device.time_.at(device.start_ + outage.end, [this] {
        is_out_ = false;
        connect_at_step();
      });
    }
    connect_at_step();
  }
  ~Link() override {
    if (connection_ != 0) device_.loop_->end(connection_);
  }

  void cut() {
    if (connection_ == 0) return;
    device_.loop_->end(connection_);
    connection_ = 0;
    client_.reset();
    server_.reset();
    tell(Error{Errc::link_down, "it broke"}, LinkState::connecting);
  }

  void connect_at_step() {
    device_.time_.put_off(device_.grid_.release(now()), [this] { connect(); });
  }

  Result<void> send(TargetRequest request) override {
    // As in ClientLink: the caller's knowledge belongs to an earlier connection.
    if (state_ != LinkState::online || std::ranges::any_of(events_, is_welcome)) {
      return Error{Errc::link_down, "it is down"};
    }
    if (std::holds_alternative<CancelRequest>(request)) {
      ++cancels_sent_;
      std::erase_if(events_, is_answer);
    }
    const auto* const hints = std::get_if<wire::OutgoingHints>(&request);
    if (hints && !hints->complete) ++device_.hint_count_;
    if (std::holds_alternative<wire::OutgoingResume>(request)) ++device_.resync_count_;
    const Instant now = device_.compute_now();
    const std::uint64_t connection = told_connection_;
    device_.time_.put_off(device_.grid_.release(now),
                          [this, connection, request = std::move(request)]() mutable {
                            const bool cancels = std::holds_alternative<CancelRequest>(request);
                            if (client_ && client_->ready() && connection == connection_) {
                              hand_over(std::move(request));
                            }
                            if (cancels) ++cancels_done_;
                          });
    return boost::system::in_place_value;
  }

  Result<ClientEvent> wait_event(Instant) override {
    if (events_.empty()) return Error{Errc::timed_out, "nothing came"};
    Result<ClientEvent> event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

  LinkState state() const override { return state_; }
  LinkStats stats() const override { return {}; }
  bool backed_up() const override { return false; }
  void close() override {}

 private:
  static bool is_welcome(const Result<ClientEvent>& event) {
    return event && std::holds_alternative<Welcomed>(*event);
  }
  static bool is_answer(const Result<ClientEvent>& event) {
    return event && (std::holds_alternative<VerdictReceived>(*event) ||
                     std::holds_alternative<RequestRefused>(*event));
  }

  Instant now() const { return device_.time_.now(); }

  void connect() {
    if (is_out_ || connection_ != 0) return;
    connection_ = ++device_.connection_count_;
    client_.emplace(ClientProtocolOptions{.hello = {.agent = "toy",
                                                    .pad_tick_ms = device_.options_.pad_tick_ms}},
                    now());
    server_.emplace(ServerProtocolOptions{}, now());
    pass_up();
    keep_pace(connection_);
  }

  void keep_pace(std::uint64_t connection) {
    if (connection != connection_) return;
    const bool goes_on = (now() < client_->next_deadline() || client_->tick(now())) &&
                         (now() < server_->next_deadline() || server_->tick(now()));
    if (!goes_on) {
      EXPECT_FALSE(device_.options_.stalls.empty());
      cut();
      device_.time_.at(now() + kReconnectPause, [this] { connect_at_step(); });
      return;
    }
    pass_up();
    pass_down(now());
    const Duration step = device_.options_.pad_tick_ms > 0 ? Duration(1ms) : Duration(500ms);
    device_.time_.at(now() + step, [this, connection] { keep_pace(connection); });
  }

  void tell(Result<ClientEvent> event, std::optional<LinkState> state = std::nullopt) {
    const std::uint64_t connection = connection_;
    device_.time_.put_off(device_.grid_.release(now()), [this, state, connection,
                                                         event = std::move(event)]() mutable {
      if (cancels_done_ != cancels_sent_ && is_answer(event)) return;
      state_ = state.value_or(state_);
      if (state == LinkState::online) {
        told_connection_ = connection;
        events_.erase(std::ranges::find_if(events_, is_welcome), events_.end());
      }
      events_.push_back(std::move(event));
      wake_();
    });
  }

  void hand_over(TargetRequest request) {
    const auto sent = std::visit([this](auto& r) { return hand_over(r); }, request);
    if (!sent) tell(ClientEvent(RequestRefused{sent.error()}));
    pass_up();
  }
  Result<void> hand_over(wire::OutgoingPrefill& r) { return client_->prefill(std::move(r)); }
  Result<void> hand_over(wire::OutgoingResume& r) { return client_->resume(std::move(r)); }
  Result<void> hand_over(wire::OutgoingHints& r) { return client_->hints(std::move(r)); }
  Result<void> hand_over(CancelRequest&) {
    client_->cancel();
    return boost::system::in_place_value;
  }

  void pass_up() {
    if (!client_ || !client_->has_output()) return;
    Bytes bytes = client_->take_output();
    device_.sent_.push_back({connection_, now(), bytes});
    device_.time_.at(device_.arrival(now(), true), [this, connection = connection_, bytes] {
      if (connection != connection_) return;
      EXPECT_TRUE(server_->receive(now(), bytes));
      while (auto event = server_->next_event()) take(*std::move(event));
      pass_down(now());
    });
  }

  void pass_down(Instant from) {
    if (!server_ || !server_->has_output()) return;
    const Bytes bytes = server_->take_output();
    device_.time_.at(device_.arrival(from, false), [this, connection = connection_, bytes] {
      if (connection != connection_) return;
      EXPECT_TRUE(client_->receive(now(), bytes));
      while (auto event = client_->next_event()) {
        const bool welcomed = std::holds_alternative<Welcomed>(*event);
        tell(*std::move(event), welcomed ? std::optional(LinkState::online) : std::nullopt);
      }
      pass_up();
    });
  }

  class Answers final : public Replies {
   public:
    Answers(Link& link, std::uint64_t connection) : link_(link), connection_(connection) {}
    void verdict(wire::Verdict verdict) override {
      say([&link = link_, verdict] { link.server_->verdict(verdict); });
    }
    void activations(wire::Activations chunk) override {
      say([&link = link_, chunk] { link.server_->activations(chunk); });
    }
    void reading(std::uint32_t round) override {
      say([&link = link_, round] { link.server_->reading(round); });
    }
    void refuse(std::uint32_t round, Error error) override {
      say([&link = link_, round, error] { link.server_->refuse(round, error); });
    }

   private:
    // A pass reports its end after its duration.
    void say(std::function<void()> what) {
      const Instant when = link_.device_.passing_.value_or(link_.now());
      link_.device_.time_.at(when,
                             [&link = link_, connection = connection_, what = std::move(what)] {
                               if (connection != link.connection_) return;
                               what();
                               link.pass_down(link.now());
                             });
    }
    Link& link_;
    std::uint64_t connection_;
  };

  void take(ServerEvent event) {
    if (std::holds_alternative<HelloReceived>(event)) {
      wire::Welcome welcome{
          .agent = "toy",
          .context_count = kContext,
          .nodes_max = device_.options_.nodes_max,
          .scale_groups = {},
          .hint_nodes_max = kHintNodesMax,
          .replica = "r" + std::to_string(device_.replica_count_),
      };
      if (Tap* const tap = device_.drafters_.tap()) {
        const auto groups = tap->scale_groups();
        welcome.scale_groups.assign(groups.begin(), groups.end());
      }
      session_ = {};
      session_[0] = static_cast<std::byte>(connection_);
      session_[1] = static_cast<std::byte>(connection_ >> 8);
      welcome.session = session_;
      server_->accept(std::move(welcome));
      return;
    }
    PassLoop& loop = *device_.loop_;
    if (const auto* hints = std::get_if<HintsReceived>(&event)) {
      return loop.hints(connection_, hints->hints, now());
    }
    if (const auto* cancelled = std::get_if<RoundCancelled>(&event)) {
      return loop.cancel(connection_, cancelled->round);
    }
    const Client client{.connection_id = connection_,
                        .reply = std::make_shared<Answers>(*this, connection_),
                        .session = session_,
                        .identity = "user",
                        .tap = device_.drafters_.tap()};
    std::visit(
        [&](auto& requested) {
          if constexpr (requires { requested.request; }) {
            loop.begin(client, std::move(requested.request), now());
          }
        },
        event);
  }

  SimulatedDevice& device_;
  std::function<void()> wake_;
  std::optional<ClientProtocol> client_;
  std::optional<ServerProtocol> server_;
  wire::SessionId session_{};
  std::uint64_t connection_ = 0;  // 0: down
  bool is_out_ = false;
  // The device's view of the link.
  LinkState state_ = LinkState::connecting;
  std::uint64_t told_connection_ = 0;
  std::deque<Result<ClientEvent>> events_;
  std::uint64_t cancels_sent_ = 0;
  std::uint64_t cancels_done_ = 0;
};

// A conversation, like a slot of the engine.
struct SimulatedDevice::Talk final : GenerationObserver {
  void on_token(std::uint32_t token, Provenance provenance) override {
    if (asked->observer != nullptr) asked->observer->on_token(token, provenance);
  }
  void on_confirmed(std::uint32_t first, std::uint32_t end) override {
    if (asked->observer != nullptr) asked->observer->on_confirmed(first, end);
  }
  void on_kept(std::uint32_t count) override {
    if (asked->observer != nullptr) asked->observer->on_kept(count);
  }
  void on_rewrite(std::uint32_t index) override {
    if (asked->observer != nullptr) asked->observer->on_rewrite(index);
  }
  void on_state(ClientState, const std::string&) override {}

  Turn turn;
  std::optional<Instant> seen;  // the step whose time its turn uses
  std::deque<Ask> line;
  std::optional<Ask> asked;
  std::unique_ptr<Drafter> drafter;
  std::optional<OfflineWriter> writer;
  std::unique_ptr<Link> link;
  std::optional<Generation> generation;
};

Instant SimulatedDevice::arrival(Instant from, bool up) const {
  for (const Stall& stall : options_.stalls) {
    const bool holds = up ? stall.up : stall.down;
    if (holds && from >= start_ + stall.begin && from < start_ + stall.end) {
      return start_ + stall.end + options_.one_way;
    }
  }
  return from + options_.one_way;
}

// Serves with a new server that knows no session.
void SimulatedDevice::start_replica() {
  PassLoopOptions passes;
  passes.sessions.sessions_max = 16;
  passes.pace = [row = options_.row_time](std::uint32_t rows) { return kPassTime + rows * row; };
  passes.pass_rows_max = options_.pass_rows_max;
  passes.wait_until = [this](Instant end) { passing_ = std::max(*passing_, end); };
  passes.on_session_fault = [](const std::string& why) { ADD_FAILURE() << why; };
  loop_.emplace(SessionParts{.decoder = decoder_, .context_count = kContext, .is_end = is_toy_end},
                passes, [this] { return passing_.value_or(time_.now()); });
  server_free_ = time_.now();
  ++replica_count_;
}

void SimulatedDevice::kill_replica() {
  for (const auto& talk : talks_) talk->link->cut();
  start_replica();
  for (const auto& talk : talks_) talk->link->connect_at_step();
  if (over_count_ < asked_count_) ++kill_count_;
}

SimulatedDevice::SimulatedDevice(const Options& options) : options_(options) {
  start_replica();
  for (const Duration at : options.kills) {
    time_.at(start_ + at, [this] { kill_replica(); });
  }
  for (std::uint32_t i = 0; i < options.conversations; ++i) {
    auto owned = std::make_unique<Talk>();
    Talk& talk = *owned;
    talks_.push_back(std::move(owned));
    order_.push_back(&talk);
    const Duration step = i == 0 ? options.first_draft_step : options.others_draft_step;
    const lab::PaceClock clock{.now = [this] { return compute_now(); },
                               .wait_until = [this](Instant end) { compute_until(end); }};
    const auto paced = [=](std::unique_ptr<Drafter> drafter) {
      return std::make_unique<lab::PacedDrafter>(std::move(drafter),
                                                 lab::DraftingPace{.step = step}, clock);
    };
    if (i == 0 && options.first_answers_alone) {
      talk.writer.emplace([this, paced] {
        return paced(std::make_unique<IndependentDrafter>(*backend_, toy_.config, toy_.tensors,
                                                          options_.drafter_context));
      });
    }
    if (auto drafter = drafters_.make(*backend_)) talk.drafter = paced(std::move(drafter));
    talk.link = std::make_unique<Link>(*this, [this, &talk] {
      if (!talk.turn.woken) talk.turn.woken_at = time_.now();
      talk.turn.woken = true;
    });
    talk.generation.emplace(
        Generation::Parts{.link = *talk.link,
                          .drafter = talk.drafter.get(),
                          .writer = talk.writer ? &*talk.writer : nullptr,
                          .observer = talk,
                          .is_end = is_toy_end,
                          .now = [this, &talk] { return talk.seen.value_or(compute_now()); },
                          .goes_by_steps = [&talk] { return talk.seen.has_value(); }},
        GenerationOptions{.tree = talk.drafter ? std::optional(options.tree) : std::nullopt,
                          .tokens_max = 30,
                          .context_count = options.drafter_context,
                          .sampling = {},
                          .deadline = 400ms,
                          .resync = wire::ResyncPolicy::check,
                          .resync_wait = options.resync_wait,
                          .hold = options.hold,
                          .known = options.known});
  }
}

SimulatedDevice::~SimulatedDevice() = default;

const Generation& SimulatedDevice::generation(std::uint32_t conversation) const {
  return *order_[conversation]->generation;
}

void SimulatedDevice::ask(Instant when, Ask ask) {
  ++asked_count_;
  time_.at(when, [this, ask = std::move(ask)]() mutable {
    Talk& talk = *order_[ask.conversation];
    talk.line.push_back(std::move(ask));
    if (talk.turn.busy || talk.turn.ordered) return;
    talk.turn.ordered = talk.turn.busy = true;
    talk.turn.is_private = stays_here(talk.line.front().terms);
    talk.turn.cancelled = false;
    talk.turn.asked = time_.now();
  });
}

void SimulatedDevice::cancel(std::uint32_t conversation) {
  Turn& turn = order_[conversation]->turn;
  turn.cancelled = true;
  turn.asked = compute_now();
}

void SimulatedDevice::compute_until(Instant end) {
  computing_ = std::max(*computing_, end);
}

// Mirrors Engine::next_due().
SimulatedDevice::Talk* SimulatedDevice::next_due(Instant now) {
  const auto step = grid_.last_turn(now);
  const auto due = client::next_due(talks_, now, step, stepped_turns_);
  if (due == talks_.end()) return nullptr;
  talks_.splice(talks_.end(), talks_, due);
  Talk& talk = *talks_.back();
  talk.seen = step && !talk.turn.is_private ? step : std::nullopt;
  return &talk;
}

Instant SimulatedDevice::next_turn(Instant now) const {
  const auto step = grid_.last_turn(now);
  Instant next = Instant::max();
  for (const auto& talk : talks_) next = std::min(next, talk->turn.next(now, step));
  return next;
}

void SimulatedDevice::take_turn(Talk& talk) {
  Generation& generation = *talk.generation;
  const bool ordered = std::exchange(talk.turn.ordered, false);
  const bool cancelled = !ordered && std::exchange(talk.turn.cancelled, false);
  talk.turn.woken = false;
  if (!talk.seen) talk.turn.last = compute_now();
  if (ordered) {
    talk.asked = std::move(talk.line.front());
    talk.line.pop_front();
    generation.set(talk.asked->terms);
    generation.begin(talk.asked->prompt);
    compute_until(compute_now() + talk.asked->extra);
  } else if (cancelled) {
    generation.cancel();
  } else {
    auto told = talk.link->wait_event(Instant::min());
    const bool nothing = !told && told.error().code == Errc::timed_out;
    if (!nothing) {
      talk.turn.woken = true;
    } else if (talk.seen) {
      talk.turn.last = *talk.seen;
    }
    if (nothing && talk.seen.value_or(compute_now()) < generation.wait_end()) return;
    generation.go_on(std::move(told));
  }
  talk.turn.wait_end = generation.wait_end();
  if (!generation.over()) return;
  const auto end = generation.end();
  EXPECT_TRUE(end) << end.error().message;
  talk.turn.busy = false;
  ++over_count_;
  if (talk.asked->on_over) talk.asked->on_over();
  if (talk.line.empty()) return;
  talk.turn.busy = talk.turn.ordered = true;
  talk.turn.is_private = stays_here(talk.line.front().terms);
  talk.turn.asked = compute_now();
}

// Runs a pass if the server has work before then.
bool SimulatedDevice::run_server(Instant until) {
  Instant start = std::max(server_free_, time_.now());
  if (loop_->idle()) {
    const auto due = loop_->due();
    if (!due) return false;
    start = std::max(start, *due);
  }
  if (start >= until) return false;
  time_.pass_to(start);
  passing_ = start;
  loop_->step();
  server_free_ = *passing_;
  passing_.reset();
  return true;
}

void SimulatedDevice::run(Duration length) {
  const Instant end = start_ + length;
  while (time_.now() < end) {
    const Instant next = std::min(time_.next(), end);
    const Instant free = std::max(device_free_, time_.now());
    Talk* const due = free < next ? next_due(free) : nullptr;
    const Instant turn = due != nullptr ? free : std::max(free, next_turn(free));
    if (run_server(std::min(next, turn))) continue;
    if (due == nullptr && next <= turn) {
      if (next == end) break;
      time_.run_next();
      continue;
    }
    time_.pass_to(turn);
    if (due == nullptr) {
      device_free_ = turn;
      continue;
    }
    computing_ = turn;
    const auto step = due->seen;
    take_turn(*due);
    if (step) stepped_turns_.took(*step, *computing_ - turn);
    device_free_ = *computing_;
    computing_.reset();
  }
  EXPECT_EQ(over_count_, asked_count_) << "some answers have not ended";
}

}  // namespace edgedraft::testing
