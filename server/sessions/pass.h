#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "server/sessions/session_fault.h"
#include "server/sessions/target_session.h"

namespace edgedraft {

// A session's part in a pass.
struct PassShare {
  TargetSession* session;  // busy
  std::uint32_t rows_max;  // TargetSession::begin_pass
  std::optional<Outcome> outcome{};
  std::optional<SessionFault> fault{};  // it did not take part, or its rows came to nothing
};

// Runs the next rows of all these sessions through the decoder in one pass: each weight is read
// once. What a session gets is what it gets alone, bit for bit, since rows do not depend on each
// other.
//
// Returns   how many rows ran
// Errors    a session whose state contradicts itself gets its fault; the others go on
// Throws    DeviceError; what the sessions hold is then undefined
std::uint32_t run_pass(Decoder& decoder, std::span<PassShare> shares);

}  // namespace edgedraft
