#include "shared/runtime/kv_pool.h"

#include <bit>

#include "shared/base/check.h"

namespace edgedraft {

std::uint64_t position_bytes(DType type, std::span<const std::uint32_t> kv_cols,
                             const StatePlanes& planes) {
  std::uint64_t bytes = planes.count() * cache_bytes(plane_type(type), planes.cols);
  for (const std::uint32_t cols : kv_cols) bytes += 2 * cache_bytes(type, cols);
  return bytes;
}

KvPool::KvPool(Backend& backend, const Size& size)
    : backend_(backend), size_(size), holders_(size.page_count) {
  EDGEDRAFT_CHECK(backend.takes_pages());
  EDGEDRAFT_CHECK(backend.takes_cache_type(size.type));
  EDGEDRAFT_CHECK(std::has_single_bit(size.page_slots));
  memory_ = backend.allocate((size.bytes() + sizeof(float) - 1) / sizeof(float));
  // In order, so that a long prompt's pages are consecutive.
  for (std::uint32_t page = size.page_count; page-- > 0;) free_.push_back(page);
}

std::uint32_t KvPool::take() {
  if (free_.empty() && reclaim_) EDGEDRAFT_CHECK(reclaim_());
  EDGEDRAFT_CHECK(!free_.empty());
  const std::uint32_t page = free_.back();
  free_.pop_back();
  holders_[page] = 1;
  return page;
}

void KvPool::share(std::uint32_t page) {
  EDGEDRAFT_CHECK(holders_[page] > 0);
  ++holders_[page];
}

void KvPool::give_back(std::uint32_t page) {
  EDGEDRAFT_CHECK(holders_[page] > 0);
  if (--holders_[page] == 0) free_.push_back(page);
}

void KvPool::promise(std::uint32_t count) {
  EDGEDRAFT_CHECK(can_promise(count));
  promised_ += count;
}

void KvPool::release(std::uint32_t count) {
  EDGEDRAFT_CHECK(count <= promised_);
  promised_ -= count;
}

CacheRows KvPool::rows(std::uint32_t layer, bool is_values) const {
  const std::uint32_t slots = size_.page_count * size_.page_slots;
  const std::uint32_t cols = size_.kv_cols[layer];
  const std::uint64_t before =
      position_bytes(size_.type, std::span(size_.kv_cols).first(layer), {}) +
      (is_values ? cache_bytes(size_.type, cols) : 0);
  return CacheRows(memory_.get(), elements_in(size_.type, before * slots), slots, cols, size_.type);
}

CacheRows KvPool::states(std::uint32_t plane) const {
  const std::uint32_t slots = size_.page_count * size_.page_slots;
  const DType type = plane_type(size_.type);
  const std::uint64_t before =
      position_bytes(size_.type, size_.kv_cols, {}) + plane * cache_bytes(type, size_.planes.cols);
  return CacheRows(memory_.get(), elements_in(type, before * slots), slots, size_.planes.cols,
                   type);
}

}  // namespace edgedraft
