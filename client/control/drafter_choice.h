#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>

#include "client/control/run_control.h"

namespace edgedraft {

// One of the drafters that a conversation could have, and what answers with it have taught.
struct KnownDrafter {
  std::string name;
  std::optional<RunKnowledge> known;
};

struct DrafterChoice {
  std::size_t index = 0;
  std::string why;
};

// The one that makes the answers to come fastest, of about `tokens` tokens each and with trees of
// that breadth, by RunControl::fastest(). A drafter of which too little is known
// is tried before any is chosen; of those that are as fast but for 3 % the first is taken.
//
// Requires  drafters not empty
DrafterChoice choose_drafter(std::span<const KnownDrafter> drafters, std::uint32_t breadth,
                             std::uint32_t tokens, bool on_battery);

}  // namespace edgedraft
