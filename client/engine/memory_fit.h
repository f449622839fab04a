#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "shared/base/error.h"
#include "shared/drafting/memory_need.h"

namespace edgedraft::client {

// Capacity of drafters, and the memory for it.
struct MemoryFit {
  std::uint32_t positions;      // per conversation
  std::uint32_t conversations;  // at once
  MemoryNeed need;
};

// Below this many tokens per conversation, a drafter is not worth its memory.
inline constexpr std::uint32_t kFittedPositionsMin = 512;

// Returns the largest capacity that fits `limit`. Conversations are reduced first, down to one;
// then positions, down to kFittedPositionsMin. `need_of` returns the memory of drafters with that
// many positions.
//
// Errors    unsupported: the minimum does not fit; states the need and the remedy
Result<MemoryFit> fit_memory(std::uint64_t limit, std::uint32_t positions,
                             std::uint32_t conversations,
                             const std::function<MemoryNeed(std::uint32_t positions)>& need_of);

// "1.5 MiB"; smaller amounts in KiB or B.
std::string mebibytes(std::uint64_t bytes);

}  // namespace edgedraft::client
