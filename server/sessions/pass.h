#pragma once

#include <cstddef>
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

// How many tokens of its draft are followed, or of its text to check are chosen, for each of so
// many sessions of a pass whose choosing_searches(): its part of what all of them have together, so
// that the pass does not take the longer the more of them there are. At least one. It changes when
// tokens come and never which.
std::uint32_t searched_path_max(std::size_t searching_count);

// Runs the next rows of all these sessions through the decoder in one pass: each weight is read
// once. What a session gets is what it gets alone, bit for bit, since rows do not depend on each
// other.
//
// Returns   how many rows ran
// Errors    a session whose state contradicts itself gets its fault; the others go on
// Throws    DeviceError; what the sessions hold is then undefined
std::uint32_t run_pass(Decoder& decoder, std::span<PassShare> shares);

}  // namespace edgedraft
