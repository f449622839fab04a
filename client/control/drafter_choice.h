#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "client/control/run_control.h"

namespace edgedraft::client {

// A drafter that a conversation could use, and what its answers have taught.
struct KnownDrafter {
  std::string name;
  std::optional<RunKnowledge> known;
};

struct DrafterChoice {
  std::size_t index = 0;
  std::string why;
};

// Returns the drafter with the fastest forecast (RunControl::fastest()) for answers of about
// `tokens` tokens and trees up to `breadth`. Drafters without enough measurements are tried first.
// Among drafters within 3 % of the fastest, the first wins.
//
// Requires  drafters not empty
DrafterChoice choose_drafter(std::span<const KnownDrafter> drafters, std::uint32_t breadth,
                             std::uint32_t tokens, bool on_battery);

}  // namespace edgedraft::client
