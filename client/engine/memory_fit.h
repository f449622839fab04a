#pragma once

#include <cstdint>
#include <functional>
#include <string>

#include "shared/base/error.h"
#include "shared/drafting/memory_need.h"

namespace edgedraft {

// What drafters are for, and what they need for that.
struct MemoryFit {
  std::uint32_t positions;      // tokens of a conversation that they can draft in
  std::uint32_t conversations;  // at once
  MemoryNeed need;
};

// A conversation of fewer tokens is not worth a drafter.
inline constexpr std::uint32_t kFittedPositionsMin = 512;

// What of `positions` and `conversations` fits. First there are fewer conversations, one at least;
// then they are shorter, kFittedPositionsMin at least. `need_of` says what drafters of so many
// positions need.
//
// Errors    unsupported: that is too much; says what is needed for what, and what to do
Result<MemoryFit> fit_memory(std::uint64_t limit, std::uint32_t positions,
                             std::uint32_t conversations,
                             const std::function<MemoryNeed(std::uint32_t positions)>& need_of);

// "1.5 MiB"; less than that in KiB or B.
std::string mebibytes(std::uint64_t bytes);

}  // namespace edgedraft
