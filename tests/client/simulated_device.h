#pragma once

#include <deque>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <optional>
#include <tuple>
#include <utility>
#include <vector>

#include "client/engine/turn.h"
#include "client/generation/generation.h"
#include "netsim/lab/paced_drafter.h"
#include "server/passes/pass_loop.h"
#include "shared/drafting/independent/independent_network.h"
#include "shared/net/send_grid.h"
#include "shared/protocol/server_protocol.h"
#include "tests/client/toy_drafters.h"
#include "tests/support/toy_models.h"

// A device with several conversations on one compute thread, its links and their server, on toy
// models and one simulated clock. Computation takes the times set in the options.
namespace edgedraft::testing {
using namespace client;
using namespace server;

// Data sent on a connection: its time, and every byte that enters TLS.
struct SentBytes {
  std::uint64_t connection;
  Instant at;
  Bytes bytes;
  bool operator==(const SentBytes&) const = default;
};

// Events in simulated time. Events of one moment run in the order of their creation, but after
// events postponed to it. A step of the grid begins before timers that links set during a step.
class SimulatedTime {
 public:
  Instant now() const { return now_; }
  void at(Instant when, std::function<void()> what) { add(when, 1, std::move(what)); }
  void put_off(Instant to, std::function<void()> what) { add(to, 0, std::move(what)); }
  Instant next() const {
    return events_.empty() ? Instant::max() : std::get<Instant>(events_.begin()->first);
  }
  void run_next() {
    auto event = events_.extract(events_.begin());
    now_ = std::get<Instant>(event.key());
    event.mapped()();
  }
  void pass_to(Instant when) { now_ = std::max(now_, when); }

 private:
  void add(Instant when, int order, std::function<void()> what) {
    events_.emplace(std::tuple(std::max(when, now_), order, next_++), std::move(what));
  }

  std::map<std::tuple<Instant, int, std::uint64_t>, std::function<void()>> events_;
  std::uint64_t next_ = 0;
  Instant now_{std::chrono::hours(1)};
};

class SimulatedDevice {
 public:
  static constexpr std::uint32_t kContext = 200;
  static constexpr Duration kDraftStep = std::chrono::microseconds(600);

  struct Outage {
    Duration begin;  // since the start
    Duration end;
  };
  // A partition that no side is told about: bytes sent meanwhile arrive after its end.
  struct Stall {
    Duration begin;  // since the start
    Duration end;
    bool up;
    bool down;
  };
  struct Options {
    std::vector<Outage> outages{};  // outages of all links
    std::vector<Stall> stalls{};    // of all links
    // Times at which the server dies, since the start. Another replica, which knows no session,
    // takes over at once.
    std::vector<Duration> kills{};
    std::uint16_t pad_tick_ms = 0;  // 0: links are not padded
    std::optional<Hold> hold = Hold::none;
    Duration one_way = std::chrono::milliseconds(15);
    std::uint32_t conversations = 1;
    ToyDrafter drafter = ToyDrafter::moa_tli1;
    TreeShape tree{.breadth = 3, .depth = 4, .nodes = 12};
    std::uint32_t nodes_max = kDraftNodesMax;  // per pass, for the server
    std::uint32_t drafter_context = kContext;
    bool first_answers_alone = false;  // conversation 0 has a writer that needs no activations
    Duration resync_wait = std::chrono::seconds(2);
    Duration row_time = std::chrono::microseconds(100);  // of a pass, besides a fixed part
    std::uint32_t pass_rows_max = kMaskRowsMax;
    // Time of the first conversation's drafter per token or tree level.
    Duration first_draft_step = kDraftStep;
    Duration others_draft_step = kDraftStep;
    RunKnowledge known{};  // knowledge at the start of each conversation
  };
  explicit SimulatedDevice(const Options& options);
  ~SimulatedDevice();

  Instant now() const { return time_.now(); }
  SimulatedTime& time() { return time_; }
  SendGrid& grid() { return grid_; }

  // In effect from then on, as Engine's.
  struct Ask {
    std::uint32_t conversation = 0;
    std::vector<std::uint32_t> prompt;
    GenerationTerms terms;
    GenerationObserver* observer = nullptr;  // may be null
    Duration extra{};                        // extra time of its first turn, besides drafting
    std::function<void()> on_over{};         // may be empty
  };
  void ask(Instant when, Ask ask);
  void cancel(std::uint32_t conversation);

  // Runs for that long; every answer ends by then.
  void run(Duration length);
  const std::vector<SentBytes>& sent() const { return sent_; }
  std::uint64_t hint_count() const { return hint_count_; }
  std::uint64_t resync_count() const { return resync_count_; }
  std::uint64_t kill_count() const { return kill_count_; }  // kills during answers
  const Generation& generation(std::uint32_t conversation) const;

 private:
  class Link;
  struct Talk;

  void start_replica();
  void kill_replica();
  // Time at which bytes sent at `from` arrive at the server, or else at the device.
  Instant arrival(Instant from, bool up) const;
  Instant compute_now() const { return computing_.value_or(time_.now()); }
  void compute_until(Instant end);
  bool run_server(Instant until);
  Talk* next_due(Instant now);
  Instant next_turn(Instant now) const;
  void take_turn(Talk& talk);

  Options options_;
  SimulatedTime time_;
  Instant start_ = time_.now();
  SendGrid grid_{[this] { return compute_now(); }};
  std::unique_ptr<Backend> backend_ = make_cpu_backend({.threads = 1});
  ToyDecoder toy_{6};
  ToyDrafters drafters_{options_.drafter, toy_, *backend_, options_.drafter_context};
  Decoder decoder_{*backend_, toy_.config, toy_.tensors, kContext, drafters_.states()};
  std::optional<PassLoop> loop_;
  std::optional<Instant> passing_;  // the server's time during a pass
  Instant server_free_ = start_;
  std::optional<Instant> computing_;  // the device's time while it computes
  SteppedTurns stepped_turns_;
  Instant device_free_ = start_;
  std::list<std::unique_ptr<Talk>> talks_;
  std::vector<Talk*> order_;  // by number
  std::uint32_t asked_count_ = 0;
  std::uint32_t over_count_ = 0;
  std::vector<SentBytes> sent_;
  std::uint64_t connection_count_ = 0;
  std::uint64_t hint_count_ = 0;
  std::uint64_t resync_count_ = 0;
  std::uint64_t replica_count_ = 0;
  std::uint64_t kill_count_ = 0;
};

}  // namespace edgedraft::testing
