#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <thread>

#include "server/passes/pass_loop.h"

namespace edgedraft::server {

struct SchedulerOptions {
  PassLoopOptions passes;
  // Requests waiting or running; further ones are refused. Paused requests do not count.
  std::uint32_t queue_max;
  std::function<void(PassLoop&)> prepare{};  // called before the first request; may be empty
};

// Drives a PassLoop on its own thread, which owns the decoder, the taps and every session.
//
// Threads   post(), hints(), cancel(), ended() and wake() from any
class Scheduler {
 public:
  Scheduler(const SessionParts& parts, const SchedulerOptions& options);
  // Drops waiting requests and joins the thread after its current step.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // The answer goes to client.reply, from the scheduler's thread. Never blocks. One request per
  // connection at a time.
  void post(const Client& client, TargetWork request);
  // Adds hints to the connection's run of that round; ignored if it is over. Never blocks. If a
  // connection's waiting hints exceed their limit, only the credit of further ones is taken.
  void hints(std::uint64_t connection_id, wire::Hints hints);
  // Drops the connection's work on that round. Unprocessed messages of the round count as never
  // sent, except that they end earlier work.
  void cancel(std::uint64_t connection_id, std::uint32_t round);
  // Drops a closed connection's work; its session may be resumed or evicted.
  void ended(std::uint64_t connection_id);
  // A slow client may have caught up: its stream continues.
  void wake();
  // Drops waiting requests and stops the thread; the destructor joins it. Returns false if it does
  // not stop within `patience`, since it may wait for a hung device.
  bool stop(Duration patience);

 private:
  struct Arrival {
    Client client;
    TargetWork request;
    Instant posted;
  };
  struct HintArrival {
    std::uint64_t connection_id;
    wire::Hints hints;
    Instant posted;
  };
  struct Cancellation {
    std::uint64_t connection_id;
    std::uint32_t round;
  };
  struct Ending {
    std::uint64_t connection_id;
  };
  using Event = std::variant<Arrival, HintArrival, Cancellation, Ending>;
  // Hints of one connection in the queue.
  struct WaitingHints {
    std::size_t cost = 0;                                // cost as the protocol counts it
    std::optional<std::list<Event>::iterator> credit{};  // last message without nodes
  };

  void run();
  // Checks periodically whether a step of run() makes progress.
  void watch();
  void dispatch(const Event& event);
  // Takes queued messages in order; blocks if idle. Returns false to stop.
  bool take(std::list<Event>& events);
  // Drops queued requests and hints of the round, or of all rounds. Returns true if a request was
  // dropped before the loop saw it.
  // Requires  mutex_ held
  bool drop_waiting(std::uint64_t connection_id, std::optional<std::uint32_t> round);
  // Drops a HintArrival; returns the next element.
  // Requires  mutex_ held
  std::list<Event>::iterator drop_hints(std::list<Event>::iterator arrival);
  // True if a cancellation of the connection is queued.
  // Requires  mutex_ held
  bool is_cancelling(std::uint64_t connection_id) const;
  Metrics& metrics() { return *options_.passes.metrics; }

  SchedulerOptions options_;
  PassLoop loop_;  // used by the thread only

  std::mutex mutex_;
  std::condition_variable wake_;
  std::list<Event> events_;
  std::map<std::uint64_t, WaitingHints> waiting_hints_;  // by connection
  std::size_t request_count_ = 0;                        // without an answer
  std::size_t paused_count_ = 0;                         // paused requests, as of the last step
  bool stopping_ = false;
  bool ended_ = false;
  std::condition_variable end_;
  std::thread thread_;
  std::thread watch_;
};

}  // namespace edgedraft::server
