#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <list>
#include <map>
#include <mutex>
#include <optional>
#include <thread>
#include <utility>
#include <vector>

#include "server/passes/pass_loop.h"

namespace edgedraft {

struct SchedulerOptions {
  PassLoopOptions passes;
  // Requests that wait or run; further ones are refused. A paused request holds no place.
  std::uint32_t queue_max;
  std::function<void(PassLoop&)> prepare{};  // before the first request; may be empty
};

// Drives a PassLoop on a thread of its own, which owns the decoder, the taps and every session.
//
// Threads   post(), hints(), cancel(), ended() and wake() from any
class Scheduler {
 public:
  Scheduler(const SessionParts& parts, const SchedulerOptions& options);
  // Drops what waits and ends the thread, as soon as its step has ended.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // The answer goes to client.reply, from the scheduler's thread. Never waits. A connection has one
  // request at a time.
  void post(const Client& client, TargetWork request);
  // Hints for the connection's run of that round; nothing if it is over. Never waits: of those that
  // come while so many of the connection's wait for the end of a pass, the credit alone is taken.
  void hints(std::uint64_t connection_id, wire::Hints hints);
  // Drops the connection's work on that round.
  // What has not been looked at yet is as if never sent, but that it ended what came before.
  void cancel(std::uint64_t connection_id, std::uint32_t round);
  // The connection is over: its work is dropped, its session may be resumed or evicted.
  void ended(std::uint64_t connection_id);
  // A client that was behind in reading may have caught up: its stream goes on.
  void wake();
  // Drops what waits and asks the thread to end, which its destructor waits for. False: it does not
  // within that time, for it waits for the device, which may hang.
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
  using News = std::variant<Arrival, HintArrival, Cancellation, Ending>;
  // The hints of one connection among the news.
  struct WaitingHints {
    std::size_t cost = 0;                               // as the protocol counts them
    std::optional<std::list<News>::iterator> credit{};  // the last message without nodes
  };

  void run();
  // Looks now and then whether a step of run() still gets on.
  void watch();
  void tell(const News& news);
  // What other threads said, in order; waits where there is nothing else to do. False: stop.
  bool take(std::list<News>& news);
  // Forgets the round's request and hints, or those of all rounds, as far as they wait; whether a
  // request did, so that nobody has heard of it. Requires  mutex_ held
  bool drop_waiting(std::uint64_t connection_id, std::optional<std::uint32_t> round);
  // Forgets a HintArrival; what comes behind it. Requires  mutex_ held
  std::list<News>::iterator drop_hints(std::list<News>::iterator arrival);
  // Whether a cancellation of the connection's waits. Requires  mutex_ held
  bool is_cancelling(std::uint64_t connection_id) const;
  Metrics& metrics() { return *options_.passes.metrics; }

  SchedulerOptions options_;
  PassLoop loop_;  // of the thread alone

  std::mutex mutex_;
  std::condition_variable wake_;
  std::list<News> news_;
  std::map<std::uint64_t, WaitingHints> waiting_hints_;  // by connection
  std::size_t request_count_ = 0;                        // that have no answer yet
  std::size_t paused_count_ = 0;                         // of these, as of the last step
  bool stopping_ = false;
  bool ended_ = false;
  std::condition_variable end_;
  std::thread thread_;
  std::thread watch_;
};

}  // namespace edgedraft
