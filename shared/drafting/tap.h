#pragma once

#include <cstdint>
#include <span>

#include "shared/runtime/kv_cache.h"

namespace edgedraft {

// What a kind of drafter is sent of the target's state: one row of values per position.
class Tap {
 public:
  virtual ~Tap() = default;

  // The hidden states of the target that it reads, increasing; the target's caches then keep them
  // (StatePlanes).
  virtual std::span<const std::uint32_t> states() const { return {}; }
  // Values that share a scale when a row is quantised, in order; a row has their sum.
  virtual std::span<const std::uint32_t> scale_groups() const = 0;
  // The rows of positions first..first + count - 1 of a session's cache.
  // Shapes    rows [count * columns], packed
  virtual void read(const KvCache& cache, std::uint32_t first, std::uint32_t count,
                    std::span<float> rows) = 0;
};

}  // namespace edgedraft
