#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <vector>

#include "shared/runtime/backend.h"
#include "shared/runtime/kv_pool.h"
#include "shared/runtime/recurrent_states.h"
#include "shared/runtime/window_pages.h"

namespace edgedraft {

// Rotated keys and values of one sequence in every layer, and the hidden states that its decoder
// keeps (StatePlanes). A valid position has all of them. Slots 0..length()-1 are valid, and slot =
// position; rows of a running call lie after them until keep() or set_length().
//
// Memory is its own, for all slots at once (capacity * position_bytes()), or pages of a
// pool. reserve() takes pages; shortening or destroying the cache returns them. Shared pages are
// never written. Layers with windows may have pages of a second pool, which return as soon as no
// later row sees them (WindowPages).
class KvCache {
 public:
  struct Size {
    std::vector<std::uint32_t> kv_cols;  // per layer
    std::uint32_t capacity;              // slots
    DType type = DType::f32;
    StatePlanes planes = {};

    std::uint64_t bytes() const { return position_bytes(type, kv_cols, planes) * capacity; }
  };
  // Throws DeviceError if out of memory. Requires backend.takes_cache_type(type)
  KvCache(Backend& backend, const Size& size);
  // Requires  the pool outlives the cache
  KvCache(KvPool& pool, std::uint32_t capacity);
  // Layers with a window have their pages in `windowed`, the others and the planes in `pool`.
  // `windows`: of each layer, 0: none.
  KvCache(KvPool& pool, KvPool& windowed, std::span<const std::uint32_t> windows,
          std::uint32_t capacity);
  ~KvCache();
  KvCache(KvCache&&) noexcept = default;
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  std::uint32_t length() const { return length_; }
  std::uint32_t capacity() const { return capacity_; }
  // Slots with memory.
  std::uint32_t slots() const;

  // One view per layer, [slots(), kv_cols[layer]]; valid until the memory changes.
  std::span<const CacheView> keys() const { return keys_; }
  std::span<const CacheView> values() const { return values_; }
  // The kept planes, and the rows of one state, [slots(), planes().cols].
  const StatePlanes& planes() const { return planes_; }
  const CacheView& states(std::uint32_t state) const;

  // Gives the sequence states of recurrent layers, before its first row.
  void set_states(std::unique_ptr<RecurrentStates> recurrent);
  // Null without such layers.
  RecurrentStates* recurrent() const { return recurrent_.get(); }

  // Marks slots 0..length-1 as valid. If that cuts a shared page, the whole page is released.
  // length() is then the page's first slot, and valid slots after it must be recomputed. Recurrent
  // states of fewer than the settled positions are those of the last copy (RecurrentStates::save),
  // or none if the copy covers more or cuts a shared page: length() is then smaller, too. If pages
  // of the window before `length` were returned, length() is 0. Requires  length <= slots()
  void set_length(std::uint32_t length);
  // True if set_length() would keep exactly `length`.
  bool can_keep(std::uint32_t length) const;
  // Appends the given slots, which lie after length() and increase: the accepted path of a tree
  // becomes contiguous.
  void keep(std::span<const std::uint32_t> slots);

  // --- with a pool ---

  std::span<const std::uint32_t> pages() const { return pages_; }
  // Pages of layers with windows; null without a pool of their own.
  const WindowPages* windowed() const { return windowed_.get(); }
  // Takes memory for slots 0..slots-1. False, taking none, if the pool has too few pages. Pages of
  // windows are set aside here and taken by begin_rows().
  // Requires  slots <= capacity()
  [[nodiscard]] bool reserve(std::uint32_t slots);
  // True if pages of windows could be set aside for that many slots.
  bool has_windows_for(std::uint32_t slots) const;
  // Takes the pages of windows for rows that are about to run, in slots first_slot...
  // Requires  reserve() of these slots, of which at most kMaskRowsMax lie after length(); no
  //           position is before length()
  void begin_rows(std::span<const std::uint32_t> positions, std::uint32_t first_slot);
  // Returns the pages after length().
  void trim();
  // Replaces its pages by these, whose slots are all valid, those of windows by `windowed`, of the
  // last pages, and its recurrent states by those after the pages.
  // Requires  `states` if recurrent() is set
  void adopt(std::span<const std::uint32_t> pages, std::span<const std::uint32_t> windowed = {},
             const StateCheckpoint* states = nullptr);

 private:
  // The length that a pool's pages allow.
  std::uint32_t kept_length(std::uint32_t length) const;
  void resize(std::uint32_t length);
  void give_back_from(std::uint32_t page);
  void update_views();
  template <class Change>
  void for_each_view(const Change& change);

  Backend* backend_;
  KvPool* pool_ = nullptr;
  std::uint32_t capacity_;
  std::unique_ptr<Buffer> memory_;  // null with a pool
  std::vector<std::uint32_t> pages_;
  std::unique_ptr<WindowPages> windowed_;
  std::vector<bool> is_windowed_;  // per layer
  std::vector<CacheView> keys_;
  std::vector<CacheView> values_;
  StatePlanes planes_;
  std::vector<CacheView> states_;  // one per plane
  std::unique_ptr<RecurrentStates> recurrent_;
  std::uint32_t length_ = 0;
};

}  // namespace edgedraft
