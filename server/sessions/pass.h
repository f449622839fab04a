#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>

#include "server/sessions/session_fault.h"
#include "server/sessions/target_session.h"

namespace edgedraft::server {

// One session's share of a pass.
struct PassShare {
  TargetSession* session;  // busy
  std::uint32_t rows_max;  // TargetSession::begin_pass
  std::uint32_t rows = 0;  // that the pass ran
  std::optional<Outcome> outcome{};
  std::optional<SessionFault> fault{};  // set if the session failed: it did not take part, or its
                                        // rows gave no outcome
};

// Draft tokens followed, or provisional tokens chosen, per session if `searching_count` sessions of
// the pass have choosing_searches(). They share one budget, so the time of a pass does not grow
// with their number. At least 1. It affects the timing of tokens, never their values.
std::uint32_t searched_path_max(std::size_t searching_count);

// Runs the next rows of all sessions through the decoder in one pass, so that each weight is read
// once. Rows do not depend on each other: each session's result is bit-identical to running alone.
//
// Returns   the number of rows run
// Errors    a session with inconsistent state gets its fault; the others continue
// Throws    DeviceError; the sessions' state is then undefined
std::uint32_t run_pass(Decoder& decoder, std::span<PassShare> shares);

}  // namespace edgedraft::server
