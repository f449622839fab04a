#pragma once

#include <cstdint>

#include "shared/drafting/drafter_kind.h"
#include "shared/runtime/backend.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {

// Memory of a drafter, as counted by MemoryMeter.
struct MemoryNeed {
  std::uint64_t weights = 0;  // reordered or on the device
  std::uint64_t scratch = 0;  // tables and intermediate rows shared by all conversations
  std::uint64_t cache = 0;    // per conversation: keys and values, features, tables of its text

  std::uint64_t total(std::uint64_t conversations) const {
    return weights + scratch + cache * conversations;
  }
  MemoryNeed& operator+=(const MemoryNeed& other);
};

// Memory of a drafter for `positions` tokens on `backend`, by the backend's meter. Loads it and
// drafts trees of that shape for two conversations as long as a call is wide. A PlanningBackend
// predicts another backend's memory, using little memory and time itself.
//
// Requires  1 <= positions <= model.facts().context_count; a fresh backend with its own meter
// Throws DeviceError if the backend runs out of memory
MemoryNeed memory_need(const DrafterModel& model, Backend& backend, std::uint32_t positions,
                       const TreeShape& tree);

}  // namespace edgedraft
