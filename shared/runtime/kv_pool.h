#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "shared/runtime/backend.h"
#include "shared/runtime/state_planes.h"

namespace edgedraft {

// Memory for the keys, values and hidden states of many sequences, one allocation, cut into pages.
// A page holds the keys and values of page_slots positions in every layer, and the states that the
// planes name; sequences hold pages, several may hold the same.
//
// Layout    layer by layer, keys and values apart, then plane by plane: page p is rows
//           p * page_slots.. of each of these matrices, so that a sequence has one page table for
//           all of them
// Threads   one at a time
class KvPool {
 public:
  // Small enough that the last page of a sequence, half empty, costs little beside its answer, and
  // that prompts with a common beginning share nearly all of it; large enough that a row of a
  // prompt is read in stretches of several KiB and tables stay short (256 entries for 8192
  // positions).
  static constexpr std::uint32_t kPageSlots = 32;

  struct Size {
    std::uint32_t layers;
    std::uint32_t kv_cols;
    std::uint32_t page_count;
    std::uint32_t page_slots = kPageSlots;  // a power of two
    DType type = DType::f32;
    StatePlanes planes = {};

    std::uint64_t page_bytes() const {
      return cache_bytes(type, (std::uint64_t{2} * layers * kv_cols +
                                std::uint64_t{planes.count()} * planes.cols) *
                                   page_slots);
    }
    std::uint64_t bytes() const { return page_count * page_bytes(); }
    std::uint32_t pages_for(std::uint32_t slots) const {
      return (slots + page_slots - 1) / page_slots;
    }
  };
  // Throws DeviceError where the memory is not to be had. Requires backend.takes_pages() and
  // takes_cache_type(size.type)
  KvPool(Backend& backend, const Size& size);
  KvPool(const KvPool&) = delete;
  KvPool& operator=(const KvPool&) = delete;

  Backend& backend() const { return backend_; }
  const Size& size() const { return size_; }
  std::uint32_t free_count() const { return static_cast<std::uint32_t>(free_.size()); }
  std::uint32_t used_count() const { return size_.page_count - free_count(); }

  // A page for one holder. Requires free_count() > 0
  std::uint32_t take();
  // One more holder of a page that somebody holds.
  void share(std::uint32_t page);
  // One holder less; nobody's page is free again.
  void give_back(std::uint32_t page);
  std::uint32_t holders(std::uint32_t page) const { return holders_[page]; }

  // All pages' rows of a layer. [page_count * page_slots, kv_cols]
  CacheRows keys(std::uint32_t layer) const { return rows(2 * layer); }
  CacheRows values(std::uint32_t layer) const { return rows(2 * layer + 1); }
  // All pages' rows of the n-th of size().planes. [page_count * page_slots, planes.cols]
  CacheRows states(std::uint32_t plane) const;

 private:
  CacheRows rows(std::uint32_t index) const;

  Backend& backend_;
  Size size_;
  std::unique_ptr<Buffer> memory_;
  std::vector<std::uint32_t> free_;     // the next one last
  std::vector<std::uint32_t> holders_;  // of each page
};

}  // namespace edgedraft
