#pragma once

#include <cstddef>
#include <cstdint>
#include <list>

#include "server/metrics/metrics.h"
#include "server/passes/delivery.h"
#include "server/passes/request.h"
#include "server/sessions/session_store.h"
#include "shared/base/error.h"

namespace edgedraft {

// Which requests hold memory for keys and values, which wait for it, and which give it up.
//
// A prompt that gets no pages waits in line, oldest first, and holds none. A draft that gets none
// waits too, but the oldest draft is served before the line, and while it waits every prompt that
// comes waits in line. If no prompt is running, memory for it is taken from paused streams and
// runs, then from the newest drafts, which are refused with session_unknown. A prompt that has
// waited long enough takes it from paused ones, too.
//
// No request waits for ever. Prompts in line hold nothing; running prompts have all their pages and
// end. So only drafts ask for more while they hold some, and the oldest of them gets it: a whole
// context fits into the pool, and the others give theirs up. A request that pauses because its
// client does not read or gives no credit holds nobody up.
//
// Threads   one
class Admission {
 public:
  // Requires  the references outlive it
  Admission(SessionStore& sessions, Delivery& delivery, std::uint32_t waiting_max)
      : sessions_(sessions), delivery_(delivery), waiting_max_(waiting_max) {}

  // Prompts in line.
  std::size_t waiting_count() const { return waiting_count_; }

  // Lets a prompt that has been begun run or wait; false if it was refused.
  bool enter(PromptTurn& prompt);
  // The request ends without an answer: its session abandons it, the caller takes it off the turns.
  void leave(const PromptTurn& prompt);
  void leave(const RunTurn& run);
  // All requests are off the turns, and their sessions forgotten.
  void clear() {
    waiting_count_ = 0;
    waiting_draft_ = nullptr;
  }
  // As leave(), telling the client why. A prompt has already dropped what it was to replace, and
  // its client believes that the session is as it was: such a session is forgotten.
  void turn_away(const PromptTurn& prompt, Refusal why, Error error);
  void turn_away(const RunTurn& run, Refusal why, Error error);

  // The session of a run that is paused, and was not used since, makes place for another; false if
  // there is none.
  bool give_up_paused(std::list<RunTurn>& runs, Instant used_before);

  // Before a pass: pages for the draft that came first, then for the line.
  void admit(Turns& turns);

 private:
  // False: the first draft that could take part in a pass has to wait for prompts that run.
  bool secure_first_draft(Turns& turns);
  void stops_waiting(const Session* session) {
    if (waiting_draft_ == session) waiting_draft_ = nullptr;
  }
  void admit_waiting(Turns& turns);
  // Its memory goes to others, and its client is told.
  void give_up(std::list<RunTurn>& runs, std::list<RunTurn>::iterator run, const char* why);

  SessionStore& sessions_;
  Delivery& delivery_;
  std::uint32_t waiting_max_;
  std::size_t waiting_count_ = 0;
  // The session of the first draft, if prompts held the memory that it needs at the last look.
  const Session* waiting_draft_ = nullptr;
};

}  // namespace edgedraft
