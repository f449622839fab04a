#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "shared/runtime/backend.h"

namespace edgedraft {

// Hidden states of a decoder that its caches keep per position, beside keys and values.
//
// State i is the residual stream after i layers: state 0 is the embedding, state layer_count the
// output of the last layer. State layer_count + 1 is the output of the final norm, the features
// that the head multiplies (EAGLE's).
struct StatePlanes {
  std::vector<std::uint32_t> states;  // increasing, each at most layer_count + 1
  std::uint32_t cols = 0;             // per state: the decoder's dim

  std::uint32_t count() const { return static_cast<std::uint32_t>(states.size()); }
  bool operator==(const StatePlanes&) const = default;
};

// Type of planes beside keys and values of `type`: that type, except f32 beside int8, which is too
// coarse for states.
constexpr DType plane_type(DType type) {
  return type == DType::i8 ? DType::f32 : type;
}
// Bytes of one position in layers whose keys have kv_cols[i] columns, and in planes.
std::uint64_t position_bytes(DType type, std::span<const std::uint32_t> kv_cols,
                             const StatePlanes& planes);
// Elements in `bytes`, a whole number of them or of blocks.
constexpr std::uint64_t elements_in(DType type, std::uint64_t bytes) {
  return bytes / traits(type).block_bytes * traits(type).block_count;
}

// Paged memory, one allocation, for keys, values and hidden states of many sequences. A page holds
// keys and values of page_slots positions in every layer, and the states named by the planes.
// Sequences may share pages.
//
// Layout    layer by layer, keys before values, then plane by plane: page p is rows p *
//           page_slots.. of each matrix, so one page table per sequence serves all
// Threads   one at a time
class KvPool {
 public:
  // Small enough that the half-empty last page of a sequence costs little and that prompts share
  // nearly all of a common prefix. Large enough that rows of a prompt are read in runs of several
  // KiB and tables stay short (256 entries for 8192 positions).
  static constexpr std::uint32_t kPageSlots = 32;

  struct Size {
    std::vector<std::uint32_t> kv_cols;  // per layer
    std::uint32_t page_count;
    std::uint32_t page_slots = kPageSlots;  // a power of two
    DType type = DType::f32;
    StatePlanes planes = {};

    std::uint64_t page_bytes() const { return position_bytes(type, kv_cols, planes) * page_slots; }
    std::uint64_t bytes() const { return page_count * page_bytes(); }
    std::uint32_t pages_for(std::uint32_t slots) const {
      return (slots + page_slots - 1) / page_slots;
    }
  };
  // Throws DeviceError if out of memory. Requires backend.takes_pages() and
  // takes_cache_type(size.type)
  KvPool(Backend& backend, const Size& size);
  KvPool(const KvPool&) = delete;
  KvPool& operator=(const KvPool&) = delete;

  Backend& backend() const { return backend_; }
  const Size& size() const { return size_; }
  std::uint32_t free_count() const { return static_cast<std::uint32_t>(free_.size()); }
  std::uint32_t used_count() const { return size_.page_count - free_count(); }

  // Takes a free page, with one reference. Requires free_count() > 0, or a reclaimer that frees one
  std::uint32_t take();
  // `reclaim` frees a page that only a store of known pages holds; false if there is none. Called
  // when take() finds no page; empty: never.
  void set_reclaimer(std::function<bool()> reclaim) { reclaim_ = std::move(reclaim); }
  // Adds a reference to a page in use.
  void share(std::uint32_t page);
  // Drops a reference; a page without references is free.
  void give_back(std::uint32_t page);
  std::uint32_t holders(std::uint32_t page) const { return holders_[page]; }

  // Pages that sequences may take later. If each holds no more than it was promised, a page for it
  // is free or can be reclaimed.
  bool can_promise(std::uint32_t count) const { return count <= size_.page_count - promised_; }
  // Requires  can_promise(count)
  void promise(std::uint32_t count);
  void release(std::uint32_t count);

  // Rows of all pages of a layer. [page_count * page_slots, kv_cols[layer]]
  CacheRows keys(std::uint32_t layer) const { return rows(layer, false); }
  CacheRows values(std::uint32_t layer) const { return rows(layer, true); }
  // Rows of all pages of the n-th state in size().planes. [page_count * page_slots, planes.cols]
  CacheRows states(std::uint32_t plane) const;

 private:
  CacheRows rows(std::uint32_t layer, bool is_values) const;

  Backend& backend_;
  Size size_;
  std::unique_ptr<Buffer> memory_;
  std::vector<std::uint32_t> free_;     // taken from the back
  std::vector<std::uint32_t> holders_;  // references per page
  std::uint32_t promised_ = 0;
  std::function<bool()> reclaim_;
};

}  // namespace edgedraft
