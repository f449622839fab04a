#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "shared/runtime/backend.h"
#include "shared/runtime/kv_pool.h"
#include "shared/runtime/state_planes.h"

namespace edgedraft {

// Keys (rotated) and values of one sequence in every layer, and the hidden states that its decoder
// keeps (StatePlanes), which go the same ways: a position that is valid has all of them. Slots
// 0..length()-1 are valid and slot = position; rows of a running call stand behind them until
// keep() or set_length() decides.
//
// Memory is its own, for all slots at once (capacity * (2 * layers * kv_cols + planes * dim)
// numbers), or a pool's,
// whose pages it takes with reserve() and gives back when it is cut shorter or destroyed. Pages
// that others hold as well are never written to.
class KvCache {
 public:
  struct Size {
    std::uint32_t layers;
    std::uint32_t kv_cols;
    std::uint32_t capacity;  // slots
    DType type = DType::f32;
    StatePlanes planes = {};

    std::uint64_t bytes() const {
      return cache_bytes(type, (std::uint64_t{2} * layers * kv_cols +
                                std::uint64_t{planes.count()} * planes.cols) *
                                   capacity);
    }
  };
  // Throws DeviceError when the memory is not to be had. Requires backend.takes_cache_type(type)
  KvCache(Backend& backend, const Size& size);
  // Requires  the pool outlives it
  KvCache(KvPool& pool, std::uint32_t capacity);
  ~KvCache();
  KvCache(KvCache&&) noexcept = default;
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  std::uint32_t length() const { return length_; }
  std::uint32_t capacity() const { return capacity_; }
  // Slots that have memory.
  std::uint32_t slots() const;

  // A layer each, [slots(), kv_cols]; valid until the memory changes.
  std::span<const CacheView> keys() const { return keys_; }
  std::span<const CacheView> values() const { return values_; }
  // The planes that it has, and the rows of one of these states, [slots(), planes().cols].
  const StatePlanes& planes() const { return planes_; }
  const CacheView& states(std::uint32_t state) const;

  // Declares slots 0..length-1 valid. Where that cuts off a part of a page that others hold, the
  // whole page goes: length() is then the page's first slot, and what was valid behind it has to
  // run again. Requires length <= slots().
  void set_length(std::uint32_t length);
  // Whether set_length() would keep exactly so many.
  bool can_keep(std::uint32_t length) const;
  // Appends the given slots, which stand behind length() and increase, in order: the accepted path
  // of a tree becomes contiguous.
  void keep(std::span<const std::uint32_t> slots);

  // --- with a pool ---

  std::span<const std::uint32_t> pages() const { return pages_; }
  // Memory for slots 0..slots-1. False where the pool has too few pages; then it takes none.
  // Requires  slots <= capacity()
  [[nodiscard]] bool reserve(std::uint32_t slots);
  // Gives back the pages behind length().
  void trim();
  // Holds these pages, all of whose slots are valid, in the place of its own.
  void adopt(std::span<const std::uint32_t> pages);

 private:
  void give_back_from(std::uint32_t page);
  void update_views();
  template <class Change>
  void for_each_view(const Change& change);

  Backend* backend_;
  KvPool* pool_ = nullptr;
  std::uint32_t capacity_;
  std::unique_ptr<Buffer> memory_;  // null with a pool
  std::vector<std::uint32_t> pages_;
  std::vector<CacheView> keys_;
  std::vector<CacheView> values_;
  StatePlanes planes_;
  std::vector<CacheView> states_;  // of each plane
  std::uint32_t length_ = 0;
};

}  // namespace edgedraft
