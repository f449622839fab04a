#include "shared/runtime/kv_cache.h"

#include "shared/base/check.h"

namespace edgedraft {

KvCache::KvCache(Backend& backend, const Size& size) : backend_(backend), size_(size) {
  const std::uint64_t floats = std::uint64_t{size.capacity} * size.kv_cols;
  memory_ = backend.allocate(2 * floats * size.layers);
  const auto matrix = [&](std::uint64_t index) {
    return Matrix{.buffer = memory_.get(),
                  .offset = index * floats,
                  .rows = size.capacity,
                  .cols = size.kv_cols,
                  .stride = size.kv_cols};
  };
  for (std::uint64_t layer = 0; layer < size.layers; ++layer) {
    keys_.push_back(matrix(2 * layer));
    values_.push_back(matrix(2 * layer + 1));
  }
}

void KvCache::set_length(std::uint32_t length) {
  EDGEDRAFT_CHECK(length <= size_.capacity);
  length_ = length;
}

void KvCache::keep(std::span<const std::uint32_t> slots) {
  for (std::uint32_t layer = 0; layer < size_.layers; ++layer) {
    backend_.compact({.cache = keys_[layer], .first = length_, .slots = slots});
    backend_.compact({.cache = values_[layer], .first = length_, .slots = slots});
  }
  set_length(length_ + static_cast<std::uint32_t>(slots.size()));
}

}  // namespace edgedraft
