#pragma once

#include <cstddef>
#include <cstdint>
#include <list>

#include "server/metrics/metrics.h"
#include "server/passes/delivery.h"
#include "server/passes/request.h"
#include "server/sessions/session_store.h"
#include "shared/base/error.h"

namespace edgedraft::server {

// Decides which requests hold KV memory, which wait for it, and which give it up.
//
// A prompt that gets no pages queues, oldest first, and holds none. A draft that gets none waits
// too; the oldest draft goes before the queue, and while it waits every new prompt queues. If no
// prompt is running, memory for it is taken from paused streams and runs, then from the newest
// drafts, which are refused with session_unknown. A prompt that has waited long enough also takes
// memory from paused requests.
//
// No request waits forever. Queued prompts hold nothing; running prompts have all their pages and
// end. Only drafts request more while holding some, and the oldest gets it. A whole context fits
// into the pool, and the others release theirs. A request paused by its client blocks no other.
//
// Threads   one
class Admission {
 public:
  // Requires  the references outlive it
  Admission(SessionStore& sessions, Delivery& delivery, std::uint32_t waiting_max)
      : sessions_(sessions), delivery_(delivery), waiting_max_(waiting_max) {}

  // Prompts queued for memory.
  std::size_t waiting_count() const { return waiting_count_; }

  // Starts or queues a begun prompt; false if it was refused.
  bool enter(PromptTurn& prompt);
  // Ends the request without an answer and abandons it in its session; the caller erases its turn.
  void leave(const PromptTurn& prompt);
  void leave(const RunTurn& run);
  // After all turns were erased and their sessions dropped.
  void clear() {
    waiting_count_ = 0;
    waiting_draft_ = nullptr;
  }
  // Like leave(), with an error to the client. A prompt that already dropped the tokens it replaces
  // loses its session, since its client assumes the old state.
  void turn_away(const PromptTurn& prompt, Refusal why, Error error);
  void turn_away(const RunTurn& run, Refusal why, Error error);

  // Evicts the session of a paused run not used since `used_before`; false if there is none.
  bool give_up_paused(std::list<RunTurn>& runs, Instant used_before);

  // Before a pass: pages for the oldest draft, then for the queue.
  void admit(Turns& turns);

 private:
  // Returns false if the first ready draft must wait for running prompts.
  bool secure_first_draft(Turns& turns);
  void stops_waiting(const Session* session) {
    if (waiting_draft_ == session) waiting_draft_ = nullptr;
  }
  void admit_waiting(Turns& turns);
  // Evicts the run's session and sends its client an error.
  void give_up(std::list<RunTurn>& runs, std::list<RunTurn>::iterator run, const char* why);

  SessionStore& sessions_;
  Delivery& delivery_;
  std::uint32_t waiting_max_;
  std::size_t waiting_count_ = 0;
  // Session of the first draft, if prompts held the memory it needed at the last check.
  const Session* waiting_draft_ = nullptr;
};

}  // namespace edgedraft::server
