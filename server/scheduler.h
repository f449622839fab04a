#pragma once

#include <condition_variable>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <variant>
#include <vector>

#include "server/pass.h"
#include "server/row_budget.h"
#include "server/session_store.h"
#include "server/taps/tap.h"
#include "shared/base/clock.h"

namespace edgedraft {

struct SchedulerOptions {
  std::uint32_t sessions_max;
  std::uint64_t kv_bytes_max;  // of all sessions together; 0: no limit
  std::uint32_t queue_max;     // requests that wait or run; further ones are refused
  Duration pace;               // least time of a target pass: a small model at a larger one's pace
  std::uint32_t pass_rows_max = kMaskRowsMax;
  // Rows of prompts in a pass that has drafts as well.
  std::uint32_t prompt_rows = 64;
};

// Where a connection's answers go, from the compute thread. What is said after its end goes
// nowhere.
class Replies {
 public:
  virtual ~Replies() = default;
  virtual void verdict(wire::Verdict verdict) = 0;
  virtual void activations(wire::Activations chunk) = 0;
  virtual void refuse(std::uint32_t round, Error error) = 0;
};

// What a request needs to know of its connection.
struct Client {
  std::uint64_t connection_id;
  std::shared_ptr<Replies> reply;
  wire::SessionId session;
  std::string identity;  // who signed in: only they may resume the session
  Tap* tap;              // null where the drafter needs none
};

// Does the target's work on one thread that owns the decoder, the taps and every session: passes,
// each with the drafts of all waiting sessions and parts of prompts.
//
// Order     Drafts go first, in the order in which they came; prompts share prompt_rows a pass, or
//           the whole pass where there is no draft, in turns. A draft that does not fit waits and
//           holds up those behind it, and prompts that got nothing in a pass come first in the
//           next: nobody waits longer than for what was there before them.
// Threads   post(), cancel() and ended() from any
class Scheduler {
 public:
  using Request = std::variant<wire::Prefill, wire::Resume, wire::Draft>;

  // Requires  1 <= prompt_rows < pass_rows_max <= kMaskRowsMax
  Scheduler(const SessionParts& parts, const SchedulerOptions& options);
  // Drops what waits and ends the thread.
  ~Scheduler();
  Scheduler(const Scheduler&) = delete;
  Scheduler& operator=(const Scheduler&) = delete;

  // The answer goes to client.reply. Never waits. A connection has one request at a time.
  void post(const Client& client, Request request);
  // Drops the connection's work on that round.
  void cancel(std::uint64_t connection_id, std::uint32_t round);
  // The connection is over: its work is dropped, its session may be resumed or evicted.
  void ended(std::uint64_t connection_id);

 private:
  struct Job {
    Client client;
    Request request;
    Instant posted;
  };
  // A request that takes part in passes.
  struct Active {
    Client client;
    Session* session;
    std::uint32_t round;
    Instant posted;
    std::optional<Instant> started;
    std::uint32_t kept_count = 0;  // tokens written offline that became context
    // Of a prompt: the first position whose rows the client lacks.
    std::uint32_t rows_from = 0;
    // Of a draft: the first position that becomes valid, and its rows.
    std::uint32_t valid_from = 0;
    std::uint32_t rows = 0;
  };
  // Rows that a client still has to get: [first, end), newest chunks first.
  struct RowsOwed {
    Client client;
    std::uint32_t round;
    std::uint32_t first;
    std::uint32_t end;
  };
  using ConnectionRound = std::pair<std::uint64_t, std::uint32_t>;

  void run();
  // Takes in what other threads said; waits where there is nothing to do. False: stop.
  bool take_in();
  void drop(const std::vector<ConnectionRound>& cancelled, const std::vector<std::uint64_t>& ended,
            std::deque<Job>& arrived);
  void begin(const Job& job);
  void begin(const Job& job, const wire::Prefill& request);
  void begin(const Job& job, const wire::Resume& request);
  void begin(const Job& job, const wire::Draft& request);
  void begin_prompt(const Job& job, Session& session, const PrefillRequest& request,
                    std::uint32_t round, std::uint32_t kept_count, std::uint32_t rows_from);

  void run_next_pass();
  std::vector<PassShare> share_out();
  void deliver(Active& active, const Outcome& outcome, Instant finished);
  void deliver(Active& active, const PrefillOutcome& outcome, wire::Verdict verdict);
  void deliver(Active& active, const VerifiedPath& path, wire::Verdict verdict);
  void send_owed_rows();
  // Rows of the next draft, as every verdict tells.
  std::uint32_t row_budget(Instant now);
  Bytes rows(const Client& client, const Session& session, std::uint32_t first,
             std::uint32_t count) const;

  Decoder& decoder_;
  SchedulerOptions options_;
  // Of the compute thread alone.
  SessionStore sessions_;
  RowBudget budget_;
  std::deque<Active> turns_;
  std::deque<RowsOwed> owed_;
  bool prompts_first_ = false;
  std::uint32_t busy_sessions_ = 1;
  Instant busy_counted_{};

  std::mutex mutex_;
  std::condition_variable wake_;
  std::deque<Job> arrived_;
  std::size_t active_count_ = 0;
  std::vector<ConnectionRound> cancelled_;
  std::vector<std::uint64_t> ended_;
  bool stopping_ = false;
  std::thread thread_;
};

}  // namespace edgedraft
