#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <variant>

#include "server/model_host.h"
#include "server/target_session.h"
#include "shared/base/clock.h"
#include "shared/net/listener.h"

namespace edgedraft {

struct SchedulerOptions {
  std::uint32_t sessions_max;
  std::uint64_t kv_bytes_max;  // of all sessions together; 0: no limit
  std::uint32_t queue_max;     // requests that wait; further ones are refused
  Duration pace;               // least time of a target pass: a small model at a larger one's pace
};

// What a request needs to know of its connection.
struct Client {
  std::uint64_t connection_id;
  ReplyHandle reply;
  wire::SessionId session;
  std::string identity;  // who signed in: only they may resume the session
  Tap* tap;              // null where the drafter needs none
};

// Ids are secrets of their clients: whoever knows one may try to resume it. Throws Failure where
// the system has no randomness.
wire::SessionId random_session_id();

// Does the target's work, a request after another, on one thread that owns the decoder, the taps
// and every session. Sessions outlive their connections, so that clients resume; the longest unused
// one gives way when a new one needs its place.
//
// Threads   post(), cancel() and ended() from any
class Scheduler {
 public:
  using Request = std::variant<wire::Prefill, wire::Resume, wire::Draft>;

  Scheduler(ModelHost& host, const SchedulerOptions& options);
  // Drops what waits and ends the thread.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // The answer goes to client.reply. Never waits.
  void post(const Client& client, Request request);
  // Drops the connection's work on that round.
  void cancel(std::uint64_t connection_id, std::uint32_t round);
  // The connection is over: its work is dropped, its session may be resumed or evicted.
  void ended(std::uint64_t connection_id);

 private:
  // Rows that a client still has to get: [first, end), newest chunks first.
  struct RowsOwed {
    std::uint32_t round;
    std::uint32_t first;
    std::uint32_t end;
  };
  struct Job {
    Client client;
    std::variant<Request, RowsOwed> work;
    Instant posted;
  };
  struct Session {
    TargetSession target;
    std::string identity;
    std::uint64_t connection_id;  // 0: nobody's, may be evicted
    Instant used;
  };

  void run();
  std::optional<Job> next();
  bool dropped(const Job& job);
  void work(const Job& job, const wire::Prefill& request);
  void work(const Job& job, const wire::Resume& request);
  void work(const Job& job, const wire::Draft& request);
  void work(const Job& job, const RowsOwed& owed);

  void answer(const Job& job, Session& session, const PrefillRequest& request, std::uint32_t round,
              std::uint32_t accepted_if_kept, std::uint32_t rows_from);
  // The session that the connection works on; null before its first prompt, or when another
  // connection of the same client has taken it over.
  Session* find_session(const Client& client);
  // The same, made where there is none. Refused where there is no room.
  Result<Session*> own_session(const Client& client);
  // Drops it, after a failure of the device in the middle of its work.
  void forget_session(const Client& client);
  Result<Session*> resumed_session(const Client& client, const wire::Resume& request);
  Result<void> make_room();
  Bytes rows(const Client& client, const Session& session, std::uint32_t first,
             std::uint32_t count);
  wire::Verdict timed(const Job& job, wire::Verdict verdict, Instant started) const;

  ModelHost& host_;
  SchedulerOptions options_;
  // Of the compute thread alone.
  std::map<wire::SessionId, Session> sessions_;     // compute thread
  std::map<std::uint64_t, wire::SessionId> bound_;  // connections to what they work on

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> queue_;
  std::set<std::pair<std::uint64_t, std::uint32_t>> cancelled_;
  std::set<std::uint64_t> ended_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace edgedraft
