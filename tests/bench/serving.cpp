#include "tests/bench/serving.h"

#include <time.h>

#include <algorithm>
#include <functional>
#include <memory>
#include <numeric>
#include <queue>
#include <semaphore>
#include <thread>

#include "client/generation/generation.h"
#include "netsim/lab/oracle_drafter.h"
#include "netsim/lab/paced_drafter.h"
#include "netsim/link/options.h"
#include "netsim/link/stream_link.h"
#include "shared/base/check.h"
#include "shared/base/random.h"
#include "shared/protocol/activation_codec.h"
#include "shared/protocol/server_protocol.h"
#include "tests/bench/draws.h"
#include "tests/support/driven_answer.h"

namespace edgedraft::bench {
using namespace client;
namespace {

// Measures a duration in simulated time.
class Interval {
 public:
  Interval(Instant simulated, WorkClock& clock)
      : clock_(clock), simulated_(simulated), began_(clock.now()) {}
  Instant now() const { return simulated_ + (clock_.now() - began_); }
  void wait_until(Instant end) { clock_.skip(end - now()); }

 private:
  WorkClock& clock_;
  Instant simulated_;
  Instant began_;
};

class Events {
 public:
  void at(Instant time, std::function<void()> what) {
    queue_.push({time, next_++, std::move(what)});
  }
  bool empty() const { return queue_.empty(); }
  Instant next_time() const { return queue_.top().time; }
  void run_next() {
    const auto what = queue_.top().what;
    queue_.pop();
    what();
  }

 private:
  struct Event {
    Instant time;
    std::uint64_t number;  // order of creation, for ties
    std::function<void()> what;

    bool operator<(const Event& other) const {
      return std::pair(other.time, other.number) < std::pair(time, number);
    }
  };
  std::priority_queue<Event> queue_;
  std::uint64_t next_ = 0;
};

struct World {
  const ServingSetup& setup;
  Events events;
  Instant begin;  // start of the measured time
  Instant end;
  PassLoop* loop = nullptr;
  std::optional<Interval> pass;  // empty between passes
  ServingResult result;

  bool measured(Instant t) const { return t >= begin && t < end; }
};

void require(const Result<void>& result) {
  if (!result) throw Failure(result.error());
}

// One direction between a device and its server: a network's, or half a round trip.
class Way {
 public:
  Way(const ServingSetup& setup, const netsim::LinkOptions* options, std::uint64_t seed)
      : half_(setup.round_trip / 2) {
    if (options == nullptr) return;
    stream_.emplace(*options, netsim::mean_delay(*setup.up) + netsim::mean_delay(*setup.down),
                    seed);
  }

  Instant arrival(Instant now, std::size_t bytes) {
    return stream_ ? stream_->arrival(now, bytes) : now + half_;
  }

 private:
  Duration half_;
  std::optional<netsim::StreamLink> stream_;
};

// A device: a generation on a thread that runs only while the simulation waits for it.
class Device final : public TargetLink, GenerationObserver {
 public:
  Device(World& world, std::uint64_t number, std::unique_ptr<Drafter> drafter)
      : world_(world),
        number_(number),
        oracle_(dynamic_cast<lab::OracleDrafter*>(drafter.get())),
        drafter_(paced(std::move(drafter))),
        up_(world.setup, world.setup.up, way_seed(world.setup.seed, number, WayTo::server)),
        down_(world.setup, world.setup.down, way_seed(world.setup.seed, number, WayTo::device)),
        client_({.hello = {.newest_row = newest_row()}, .channel = {}}, Instant{}),
        server_({}, Instant{}),
        thread_([this] {
          turn_.acquire();
          live();
          done_ = true;
          back_.release();
        }) {}

  ~Device() override { thread_.join(); }

  bool done() const { return done_; }

  // Runs the device from now until it waits.
  void run(Instant now) {
    if (done_) return;
    if (now < busy_until_) {
      world_.events.at(busy_until_, [this, then = busy_until_] { run(then); });
      return;
    }
    interval_.emplace(now, world_.setup.clock);
    turn_.release();
    back_.acquire();
  }

  Result<void> send(TargetRequest request) override {
    note(request);
    hand_over(std::move(request));
    pass_up(now());
    return boost::system::in_place_value;
  }

  Result<ClientEvent> wait_event(Instant deadline) override {
    // Queries, too, wait until the other devices have reached this time.
    for (bool waited = false;; waited = true) {
      if (auto event = client_.next_event()) {
        if (const auto* verdict = std::get_if<VerdictReceived>(&*event)) take(*verdict);
        return *std::move(event);
      }
      if (waited && now() >= deadline) return Error{Errc::timed_out, "no event arrived"};
      const std::uint64_t ticket = ++ticket_;
      const Instant until = std::max(deadline, now());
      world_.events.at(until, [this, ticket, until] {
        if (ticket == ticket_) run(until);
      });
      busy_until_ = now();
      back_.release();
      turn_.acquire();
    }
  }

  LinkState state() const override { return LinkState::online; }
  LinkStats stats() const override { return {}; }
  bool backed_up() const override { return false; }
  void close() override {}

 private:
  Instant now() const { return interval_->now(); }
  std::string pace_name() const { return world_.setup.drafter->file.drafter_facts().pace_name; }
  Tap* tap() const { return drafter_ ? world_.setup.drafter->tap : nullptr; }
  bool newest_row() const {
    return tap() != nullptr && world_.setup.drafter->file.hello().newest_row;
  }

  void note(const TargetRequest& request) {
    if (const auto* hints = std::get_if<wire::OutgoingHints>(&request)) {
      if (world_.measured(now())) world_.result.hints += hints->hints.nodes().size();
    }
  }

  void hand_over(TargetRequest request) {
    if (std::holds_alternative<CancelRequest>(request)) {
      client_.cancel();
    } else if (auto* prefill = std::get_if<wire::OutgoingPrefill>(&request)) {
      require(client_.prefill(std::move(*prefill)));
    } else if (auto* resume = std::get_if<wire::OutgoingResume>(&request)) {
      require(client_.resume(std::move(*resume)));
    } else {
      require(client_.hints(std::move(std::get<wire::OutgoingHints>(request))));
    }
  }

  void take(const VerdictReceived& event) {
    if (!world_.measured(now())) return;
    ++world_.result.verdicts;
    if (event.to == VerdictReceived::To::run && generation_->stats().overlap == "stream") {
      world_.result.streamed += event.verdict.tokens.size() + 1;
    }
  }

  std::unique_ptr<Drafter> paced(std::unique_ptr<Drafter> drafter) {
    if (!drafter) return nullptr;
    const PaceProfile* const pace = world_.setup.pace;
    const Duration step =
        pace ? pace->draft_step(pace_name(), PaceProfile::Place::device) : Duration::zero();
    return std::make_unique<lab::PacedDrafter>(
        std::move(drafter), lab::DraftingPace{.step = step},
        lab::PaceClock{.now = [this] { return now(); },
                       .wait_until = [this](Instant end) { interval_->wait_until(end); }});
  }

  void live() {
    const ServingSetup& setup = world_.setup;
    pass_up(now());  // the Hello
    Generation generation(
        {.link = *this,
         .drafter = drafter_.get(),
         .observer = *this,
         .is_end = [&](std::uint32_t t) { return setup.host.tokenizer().is_end(t); },
         .now = [this] { return now(); }},
        {.tree = drafter_ ? std::optional(setup.tree) : std::nullopt,
         .tokens_max = setup.tokens_max,
         .context_count = 0,
         .sampling = setup.sampling,
         .deadline = std::chrono::hours(24),
         .resync = wire::ResyncPolicy::check,
         .resync_wait = {},
         .hold = drafter_ ? setup.hold : std::optional(Hold::none)});
    generation_ = &generation;
    const auto asks = [&](std::uint32_t answered) {
      return now() < world_.end && (setup.answer_count == 0 || answered < setup.answer_count);
    };
    std::uint32_t answered = 0;
    for (std::size_t i = number_; asks(answered); i += setup.clients, ++answered) {
      const std::size_t index = i % setup.prompts.size();
      asked_ = now();
      first_ = true;
      bytes_up_ = 0;
      bytes_down_ = 0;
      if (oracle_ != nullptr) {
        oracle_->expect(setup.answers[index], mix64(mix64(setup.seed) + number_) + answers_++);
      }
      generation.begin(setup.prompts[index]);
      const auto end = testing::drive(
          generation, *this, [this] { return now(); }, [this] { return now() >= world_.end; });
      if (!end) throw Failure(end.error());
      const Instant answered_at = now();
      if (!world_.measured(answered_at)) continue;
      world_.result.answer_seconds.push_back(seconds_since(asked_, answered_at));
      world_.result.answer_tokens.push_back(generation.stats().tokens);
      world_.result.bytes_up += bytes_up_;
      world_.result.bytes_down += bytes_down_;
    }
  }

  // Bytes to the server, which arrive half a round trip later.
  void pass_up(Instant from) {
    if (!client_.has_output()) return;
    const Bytes bytes = client_.take_output();
    const Instant there = up_.arrival(from, bytes.size());
    bytes_up_ += bytes.size();
    world_.events.at(there, [this, there, bytes] {
      require(server_.receive(there, bytes));
      while (auto event = server_.next_event()) take(*std::move(event), there);
      pass_down(there);
    });
  }

  void pass_down(Instant from) {
    if (!server_.has_output()) return;
    const Bytes bytes = server_.take_output();
    const Instant there = down_.arrival(from, bytes.size());
    bytes_down_ += bytes.size();
    world_.events.at(there, [this, there, bytes] {
      require(client_.receive(there, bytes));
      run(there);
    });
  }

  void take(ServerEvent event, Instant when) {
    const ServingSetup& setup = world_.setup;
    if (std::holds_alternative<HelloReceived>(event)) {
      wire::Welcome welcome{
          .agent = "simulated",
          .model = setup.host.name(),
          .context_count = setup.host.context_count(),
          .nodes_max = kTreeNodesMax,
          .scale_groups = {},
          .hint_nodes_max = kHintNodesMax,
      };
      if (tap() != nullptr) {
        const auto groups = tap()->scale_groups();
        welcome.scale_groups.assign(groups.begin(), groups.end());
        welcome.newest_row = newest_row();
      }
      const bool pads = setup.padded_payloads && setup.drafter != nullptr;
      server_.accept(std::move(welcome), pads ? setup.pace->activation_bytes(pace_name()) : 0);
      return;
    }
    if (const auto* received = std::get_if<HintsReceived>(&event)) {
      world_.loop->hints(number_ + 1, received->hints, when);
      return;
    }
    if (const auto* cancelled = std::get_if<RoundCancelled>(&event)) {
      world_.loop->cancel(number_ + 1, cancelled->round);
      return;
    }
    wire::SessionId session{};
    session[0] = static_cast<std::byte>(number_);
    session[1] = static_cast<std::byte>(number_ >> 8);
    const Client client{.connection_id = number_ + 1,
                        .reply = std::make_shared<Answers>(*this),
                        .session = session,
                        .identity = "",
                        .tap = tap(),
                        .newest_row = newest_row()};
    std::visit(
        [&](auto& requested) {
          if constexpr (requires { requested.request; }) {
            world_.loop->begin(client, std::move(requested.request), when);
          }
        },
        event);
  }

  class Answers final : public Replies {
   public:
    explicit Answers(Device& device) : device_(device) {}
    void verdict(wire::Verdict verdict) override {
      device_.server_.verdict(std::move(verdict));
      go();
    }
    void activations(wire::Activations chunk) override {
      device_.server_.activations(std::move(chunk));
      go();
    }
    void refuse(std::uint32_t round, Error error) override {
      device_.server_.refuse(round, error);
      // A refusal may arrive while a request is processed, when its bytes leave with the others.
      if (device_.world_.pass) go();
    }

   private:
    void go() { device_.pass_down(device_.world_.pass->now()); }
    Device& device_;
  };

  void on_token(std::uint32_t, Provenance) override {
    const Instant t = now();
    const bool first = std::exchange(first_, false);
    const Instant before = std::exchange(got_, t);
    if (!world_.measured(t)) return;
    ++world_.result.tokens;
    if (!drafter_) ++world_.result.listened;
    if (first) {
      if (world_.measured(asked_)) {
        world_.result.first_token_seconds.push_back(seconds_since(asked_, t));
      }
    } else if (t - before > std::chrono::microseconds(50)) {  // from another verdict
      world_.result.gap_seconds.push_back(seconds_since(before, t));
    }
  }
  void on_confirmed(std::uint32_t, std::uint32_t) override {}
  void on_kept(std::uint32_t) override {}
  void on_rewrite(std::uint32_t) override {}
  void on_state(ClientState, const std::string&) override {}

  static double seconds_since(Instant from, Instant to) {
    return std::chrono::duration<double>(to - from).count();
  }

  World& world_;
  std::uint64_t number_;
  std::uint64_t answers_ = 0;
  lab::OracleDrafter* oracle_;  // within drafter_; null for a real drafter
  const Generation* generation_ = nullptr;
  std::unique_ptr<Drafter> drafter_;
  Way up_;
  Way down_;
  ClientProtocol client_;
  ServerProtocol server_;
  std::optional<Interval> interval_;
  std::uint64_t ticket_ = 0;
  Instant busy_until_{};  // end of its computation so far
  Instant asked_{};
  Instant got_{};
  bool first_ = true;
  bool done_ = false;
  std::uint64_t bytes_up_ = 0;  // bytes sent for the answer so far
  std::uint64_t bytes_down_ = 0;
  std::binary_semaphore turn_{0};
  std::binary_semaphore back_{0};
  std::thread thread_;
};

std::uint32_t activation_cols(const DrafterArm& drafter) {
  if (drafter.tap == nullptr) return 0;
  const auto groups = drafter.tap->scale_groups();
  return std::accumulate(groups.begin(), groups.end(), 0u);
}

}  // namespace

Instant WorkClock::now() const {
  const Instant beginning = Instant{} + skipped_;
  switch (counts_) {
    case Counts::wall:
      return beginning + Clock::now().time_since_epoch();
    case Counts::paces:
      return beginning;
    case Counts::processor:
      break;
  }
  timespec spent{};
  clock_gettime(CLOCK_PROCESS_CPUTIME_ID, &spent);
  return beginning + std::chrono::seconds(spent.tv_sec) + std::chrono::nanoseconds(spent.tv_nsec);
}

Result<ServingResult> simulate_serving(const ServingSetup& setup) {
  World world{.setup = setup, .events = {}, .begin = Instant{} + setup.warm_up, .end = {}};
  world.end = world.begin + setup.measured;
  Instant clock{};
  std::function<Duration(std::uint32_t)> pass_pace;
  if (setup.pace) pass_pace = [&](std::uint32_t rows) { return setup.pace->target_pass(rows); };
  PassLoop loop(setup.host.session_parts(),
                {.sessions = {.sessions_max = setup.clients, .kv_bytes_max = 0},
                 .pace = pass_pace,
                 .wait_until = [&](Instant end) { world.pass->wait_until(end); },
                 .speculation = setup.speculation},
                [&] { return world.pass ? world.pass->now() : clock; });
  world.loop = &loop;
  if (setup.measures_costs) {
    world.pass.emplace(clock, setup.clock);
    loop.measure_costs(std::chrono::seconds(10));
    world.pass.reset();
  }
  std::vector<std::unique_ptr<Device>> devices;
  for (std::uint64_t i = 0; i < setup.clients; ++i) {
    std::unique_ptr<Drafter> drafter;
    if (i < setup.listeners) {
      // A listener, without a drafter.
    } else if (setup.drafter != nullptr && setup.acceptance) {
      drafter = std::make_unique<lab::OracleDrafter>(
          lab::OracleOptions{.answer = {}, .acceptance = *setup.acceptance, .seed = 0},
          setup.host.tokenizer().vocabulary_count(), activation_cols(*setup.drafter));
    } else if (setup.drafter != nullptr) {
      drafter = setup.drafter->file.make_drafter(setup.device_backend);
    }
    devices.push_back(std::make_unique<Device>(world, i, std::move(drafter)));
  }
  for (const auto& device : devices) {
    world.events.at(clock, [&device, &clock] { device->run(clock); });
  }
  Instant free{};  // when the server finishes its last pass
  const auto all_done = [&] {
    return std::all_of(devices.begin(), devices.end(), [](const auto& d) { return d->done(); });
  };
  while (!all_done()) {
    Instant start = std::max(free, clock);
    if (const auto due = loop.idle() ? loop.due() : std::nullopt) {
      if (world.events.empty() || *due < world.events.next_time()) start = std::max(start, *due);
    }
    const bool event_first = !world.events.empty() && world.events.next_time() <= start;
    if (event_first || (loop.idle() && !(loop.due() && *loop.due() <= start))) {
      EDGEDRAFT_CHECK(!world.events.empty());
      clock = std::max(clock, world.events.next_time());
      world.events.run_next();
      continue;
    }
    clock = start;
    world.pass.emplace(start, setup.clock);
    const PassLoop::Count before = loop.count();
    loop.step();
    free = world.pass->now();
    world.pass.reset();
    if (!world.measured(start)) continue;
    world.result.passes += loop.count().passes - before.passes;
    world.result.rows += loop.count().rows - before.rows;
    world.result.busy_seconds += std::chrono::duration<double>(free - start).count();
  }
  world.result.seconds = std::chrono::duration<double>(setup.measured).count();
  return world.result;
}

}  // namespace edgedraft::bench
