#include "tests/bench/serving.h"

#include <time.h>

#include <algorithm>
#include <memory>
#include <queue>
#include <semaphore>
#include <thread>

#include "client/experiments/paced_drafter.h"
#include "client/generation/generation.h"
#include "shared/base/check.h"
#include "shared/protocol/server_session.h"
#include "tests/support/driven_answer.h"

namespace edgedraft::bench {
namespace {

// Measures how long something takes, as time of the simulation.
class Stretch {
 public:
  Stretch(Instant simulated, WorkClock& clock)
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
    std::uint64_t number;  // those of one time in the order in which they were made
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
  Instant begin;  // of the measured time
  Instant end;
  PassLoop* loop = nullptr;
  std::optional<Stretch> pass;  // while one runs
  ServingResult result;

  bool measured(Instant t) const { return t >= begin && t < end; }
};

void require(const Result<void>& result) {
  if (!result) throw Failure(result.error());
}

// A device: a generation on a thread that runs only while the simulation waits for it.
class Device final : public TargetLink, GenerationObserver {
 public:
  Device(World& world, std::uint64_t number, std::unique_ptr<Drafter> drafter)
      : world_(world),
        number_(number),
        drafter_(paced(std::move(drafter))),
        client_({.hello = {}, .channel = {}}, Instant{}),
        server_({}, Instant{}),
        thread_([this] {
          turn_.acquire();
          live();
          done_ = true;
          back_.release();
        }) {}

  ~Device() override { thread_.join(); }

  bool done() const { return done_; }

  // Lets the device run from now until it waits.
  void run(Instant now) {
    if (done_) return;
    stretch_.emplace(now, world_.setup.clock);
    turn_.release();
    back_.acquire();
  }

  Result<void> send(TargetRequest request) override {
    if (std::holds_alternative<CancelRequest>(request)) {
      client_.cancel();
    } else if (auto* prefill = std::get_if<wire::OutgoingPrefill>(&request)) {
      require(client_.prefill(std::move(*prefill)));
      asked_ = now();
      first_ = true;
    } else if (auto* resume = std::get_if<wire::OutgoingResume>(&request)) {
      require(client_.resume(std::move(*resume)));
    } else {
      auto& draft = std::get<wire::OutgoingDraft>(request);
      streaming_ = draft.stream_tokens > 0;
      require(client_.draft(std::move(draft)));
    }
    pass_up();
    return boost::system::in_place_value;
  }

  Result<ClientEvent> wait_event(Instant deadline) override {
    for (;;) {
      if (auto event = client_.next_event()) {
        if (auto* verdict = std::get_if<VerdictReceived>(&*event)) take(*verdict);
        return *std::move(event);
      }
      if (now() >= deadline) return Error{Errc::timed_out, "nothing came"};
      const std::uint64_t ticket = ++ticket_;
      world_.events.at(std::max(deadline, now()), [this, ticket, deadline] {
        if (ticket == ticket_) run(deadline);
      });
      back_.release();
      turn_.acquire();
    }
  }

  LinkState state() const override { return LinkState::online; }
  LinkStats stats() const override { return {}; }
  void close() override {}

 private:
  Instant now() const { return stretch_->now(); }

  void take(VerdictReceived& event) {
    if (!world_.setup.adapts) event.verdict.row_budget = 0;
    if (!world_.measured(now())) return;
    ++world_.result.verdicts;
    if (event.to == VerdictReceived::To::draft && streaming_) {
      world_.result.streamed += event.verdict.tokens.size() + 1;
    }
  }

  std::unique_ptr<Drafter> paced(std::unique_ptr<Drafter> drafter) {
    if (!drafter) return nullptr;
    return std::make_unique<PacedDrafter>(
        std::move(drafter), DraftingPace{.step = world_.setup.step_pace},
        PaceClock{.now = [this] { return now(); },
                  .wait_until = [this](Instant end) { stretch_->wait_until(end); }});
  }

  void live() {
    const ServingSetup& setup = world_.setup;
    pass_up();  // the Hello
    Generation generation(
        {.link = *this,
         .drafter = drafter_.get(),
         .observer = *this,
         .is_end = [&](std::uint32_t t) { return setup.host.tokenizer().is_end(t); },
         .now = [this] { return now(); }},
        {.tree = drafter_ ? setup.tree : std::nullopt,
         .tokens_max = setup.tokens_max,
         .context_count = 0,
         .sampling = {},
         .deadline = std::chrono::hours(24),
         .resync = wire::ResyncPolicy::check,
         .resync_wait = {},
         .control = setup.adapts ? ControlMode::automatic : ControlMode::off});
    for (std::size_t i = number_; now() < world_.end; i += setup.clients) {
      generation.begin(setup.prompts[i % setup.prompts.size()]);
      const auto end = testing::drive(
          generation, *this, [this] { return now(); }, [this] { return now() >= world_.end; });
      if (!end) throw Failure(end.error());
    }
  }

  // Bytes to the server, half a round trip later.
  void pass_up() {
    Bytes bytes = client_.take_output();
    if (bytes.empty()) return;
    const Instant there = now() + world_.setup.round_trip / 2;
    world_.events.at(there, [this, there, bytes = std::move(bytes)] {
      require(server_.receive(there, bytes));
      while (auto event = server_.next_event()) take(*std::move(event), there);
      pass_down(there);
    });
  }

  void pass_down(Instant from) {
    Bytes bytes = server_.take_output();
    if (bytes.empty()) return;
    const Instant there = from + world_.setup.round_trip / 2;
    world_.events.at(there, [this, there, bytes = std::move(bytes)] {
      require(client_.receive(there, bytes));
      run(there);
    });
  }

  void take(ServerEvent event, Instant when) {
    const ServingSetup& setup = world_.setup;
    if (std::holds_alternative<HelloReceived>(event)) {
      wire::Welcome welcome{.agent = "simulated",
                            .model = setup.host.name(),
                            .context_count = setup.host.context_count(),
                            .nodes_max = kTreeNodesMax,
                            .row_budget = kMaskRowsMax,
                            .scale_groups = {},
                            .stream_tokens_max = setup.host.context_count()};
      if (setup.tap != nullptr) {
        const auto groups = setup.tap->scale_groups();
        welcome.scale_groups.assign(groups.begin(), groups.end());
      }
      server_.accept(std::move(welcome));
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
                        .tap = setup.tap,
                        .drafter = setup.bundle != nullptr ? 1u : 0u};
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
      // A refusal may come while a request is taken in, when its bytes leave with the others.
      if (device_.world_.pass) go();
    }

   private:
    void go() { device_.pass_down(device_.world_.pass->now()); }
    Device& device_;
  };

  void on_token(std::uint32_t, Provenance) override {
    const Instant t = now();
    if (!world_.measured(t)) return;
    ++world_.result.tokens;
    if (first_) {
      world_.result.first_token_seconds.push_back(seconds_since(asked_, t));
    } else if (t - got_ > std::chrono::microseconds(50)) {  // not of the same verdict
      world_.result.gap_seconds.push_back(seconds_since(got_, t));
    }
    first_ = false;
    got_ = t;
  }
  void on_confirmed(std::uint32_t) override {}
  void on_rewrite(std::uint32_t) override {}
  void on_state(ClientState, const std::string&) override {}

  static double seconds_since(Instant from, Instant to) {
    return std::chrono::duration<double>(to - from).count();
  }

  World& world_;
  std::uint64_t number_;
  std::unique_ptr<Drafter> drafter_;
  ClientSession client_;
  ServerSession server_;
  std::optional<Stretch> stretch_;
  std::uint64_t ticket_ = 0;
  Instant asked_{};
  Instant got_{};
  bool first_ = true;
  bool streaming_ = false;  // the last draft asked for a stream
  bool done_ = false;
  std::binary_semaphore turn_{0};
  std::binary_semaphore back_{0};
  std::thread thread_;
};

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
  PassLoop loop(setup.host.session_parts(),
                {.sessions = {.sessions_max = setup.clients, .kv_bytes_max = 0},
                 .pace = setup.pass_pace,
                 .wait_until = [&](Instant end) { world.pass->wait_until(end); },
                 .speculation = setup.speculation},
                [&] { return world.pass ? world.pass->now() : clock; });
  world.loop = &loop;
  if (setup.measures_costs) {
    world.pass.emplace(clock, setup.clock);
    std::vector<Tap*> taps;
    if (setup.tap != nullptr) taps.push_back(setup.tap);
    loop.measure_costs(std::chrono::seconds(10), taps);
    world.pass.reset();
  }
  std::vector<std::unique_ptr<Device>> devices;
  for (std::uint64_t i = 0; i < setup.clients; ++i) {
    std::unique_ptr<Drafter> drafter;
    if (setup.bundle != nullptr) {
      drafter = setup.bundle->make_drafter(setup.device_backend);
    }
    devices.push_back(std::make_unique<Device>(world, i, std::move(drafter)));
  }
  for (const auto& device : devices) {
    world.events.at(clock, [&device, &clock] { device->run(clock); });
  }
  Instant free{};  // when the server has done its last pass
  const auto all_done = [&] {
    return std::all_of(devices.begin(), devices.end(), [](const auto& d) { return d->done(); });
  };
  while (!all_done()) {
    const Instant start = std::max(free, clock);
    if (loop.idle() || (!world.events.empty() && world.events.next_time() <= start)) {
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
