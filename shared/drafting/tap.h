#pragma once

#include <cstdint>
#include <span>

#include "shared/runtime/kv_cache.h"

namespace edgedraft {

// Reads the part of the target's state that a drafter needs: one row of values per position.
class Tap {
 public:
  virtual ~Tap() = default;

  // Hidden states of the target that it reads, increasing; the target's caches then keep them
  // (StatePlanes).
  virtual std::span<const std::uint32_t> states() const { return {}; }
  // Sizes of the groups that share a scale, in order; their sum is the row's width.
  virtual std::span<const std::uint32_t> scale_groups() const = 0;
  // Reads the rows of positions first..first + count - 1 of a session's cache.
  // Shapes    rows [count * columns], packed
  virtual void read(const KvCache& cache, std::uint32_t first, std::uint32_t count,
                    std::span<float> rows) = 0;
};

}  // namespace edgedraft
