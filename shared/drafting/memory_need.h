#pragma once

#include <cstdint>

#include "shared/drafting/drafter_kind.h"
#include "shared/runtime/backend.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {

// The memory that a drafter holds, as MemoryMeter counts it.
struct MemoryNeed {
  std::uint64_t weights = 0;  // in the backend's own order or on its device
  std::uint64_t scratch = 0;  // tables and intermediate rows, which all conversations share
  std::uint64_t cache = 0;    // of a conversation: keys and values, features, tables of its text

  std::uint64_t total(std::uint64_t conversations) const {
    return weights + scratch + cache * conversations;
  }
  MemoryNeed& operator+=(const MemoryNeed& other);
};

// What a drafter of `positions` tokens comes to hold on `backend`, as the backend's meter tells: it
// is loaded, and drafts trees of that shape for two conversations that are as long as a call is
// wide. On a PlanningBackend that takes no memory and little time, and says what another would
// hold.
//
// Requires  1 <= positions <= model.facts().context_count; the backend is as it was made, and its
//           meter its own
// Throws DeviceError where the backend has no memory for it
MemoryNeed memory_need(const DrafterModel& model, Backend& backend, std::uint32_t positions,
                       const TreeShape& tree);

}  // namespace edgedraft
