#pragma once

#include <cstdint>

#include "client/control/run_control.h"
#include "client/generation/cycle_record.h"
#include "shared/base/clock.h"
#include "shared/speculative/draft_tree.h"

namespace edgedraft {

// The request that the server owes an answer to, or that is to be sent next.
struct RequestInFlight {
  enum class Kind : std::uint8_t { tokens, draft } kind = Kind::tokens;
  bool in_flight = false;
  Instant sent{};
  Instant deadline{};       // of the server's silence
  Instant rows_deadline{};  // until then a draft waits for the prompt's newest activations

  // If it is tokens with credit: the length up to which the server may go on, 0 without.
  std::uint32_t credit = 0;
  bool running = false;  // they were answered, and the server goes on

  std::uint32_t rows = 0;           // of the target's pass
  bool checked = false;             // if it is tokens: the last of them are to be checked, not kept
  std::uint32_t settled_count = 0;  // the same: of them, those beyond doubt

  // If it is a draft.
  DraftTree tree{};
  std::uint32_t levels = 0;
  bool is_timed = false;  // its drafting was
  Instant drafted_at{};
  bool streaming = false;      // it asked for a stream
  bool stream_begins = false;  // which has brought nothing yet
  Instant last_received{};
  CycleRecord record{};  // what is known of the cycle when its draft leaves
};

// What the device does in a run.
struct RunPlan {
  RunControl::Decision doing{};
  // Since it began to do so.
  Instant since{};
  bool is_timed = true;  // in all turns since then
  std::uint32_t tokens = 0;
  bool begins = false;        // a stretch that counts from when the link has nothing more to tell
  bool step_is_cold = false;  // the next one takes in a prompt, too
  bool tries = false;         // to draft, whatever is expected of it
  // The answer has had a run. Those that follow an outage belong to the same answer.
  bool is_counted = false;
};

// What comes behind an answered request.
struct StreamPlan {
  std::uint32_t tokens = 0;  // of a stream; 0: a draft is sent
  std::uint32_t look_after = 0;
  std::uint32_t streamed_since_look = 0;
};

}  // namespace edgedraft
