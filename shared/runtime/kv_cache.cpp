#include "shared/runtime/kv_cache.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "shared/base/check.h"
#include "shared/runtime/checkpoint_pool.h"

namespace edgedraft {

template <class Change>
void KvCache::for_each_view(const Change& change) {
  for (std::size_t layer = 0; layer < keys_.size(); ++layer) {
    change(keys_[layer]);
    change(values_[layer]);
  }
  for (CacheView& view : states_) change(view);
}

KvCache::KvCache(Backend& backend, const Size& size)
    : backend_(&backend), capacity_(size.capacity), planes_(size.planes) {
  EDGEDRAFT_CHECK(backend.takes_cache_type(size.type));
  memory_ = backend.allocate((size.bytes() + sizeof(float) - 1) / sizeof(float));
  std::uint64_t used = 0;
  const auto rows = [&](std::uint32_t cols) {
    const CacheRows part(memory_.get(), used, size.capacity, cols, size.type);
    used += std::uint64_t{size.capacity} * cols;
    return part;
  };
  for (const std::uint32_t cols : size.kv_cols) {
    keys_.emplace_back(rows(cols));
    values_.emplace_back(rows(cols));
  }
  for (std::uint32_t plane = 0; plane < planes_.count(); ++plane) {
    states_.emplace_back(rows(planes_.cols));
  }
}

KvCache::KvCache(KvPool& pool, std::uint32_t capacity)
    : backend_(&pool.backend()), pool_(&pool), capacity_(capacity), planes_(pool.size().planes) {
  for (std::uint32_t layer = 0; layer < pool.size().kv_cols.size(); ++layer) {
    keys_.emplace_back(pool.keys(layer), pages_, pool.size().page_slots);
    values_.emplace_back(pool.values(layer), pages_, pool.size().page_slots);
  }
  for (std::uint32_t plane = 0; plane < planes_.count(); ++plane) {
    states_.emplace_back(pool.states(plane), pages_, pool.size().page_slots);
  }
}

KvCache::~KvCache() {
  for (const std::uint32_t page : pages_) pool_->give_back(page);
}

std::uint32_t KvCache::slots() const {
  if (pool_ == nullptr) return capacity_;
  return static_cast<std::uint32_t>(pages_.size()) * pool_->size().page_slots;
}

void KvCache::set_states(std::unique_ptr<RecurrentStates> recurrent) {
  EDGEDRAFT_CHECK(length_ == 0);
  recurrent_ = std::move(recurrent);
}

void KvCache::set_length(std::uint32_t length) {
  if (recurrent_ != nullptr) {
    if (length < recurrent_->settled()) {
      length = recurrent_->go_back(can_cut(recurrent_->saved()) ? length : 0);
    } else if (length > length_) {
      std::vector<std::uint32_t> slots(length - length_);
      std::iota(slots.begin(), slots.end(), length_);
      recurrent_->keep(slots);
    } else {
      recurrent_->shorten(length);
    }
  }
  resize(length);
}

void KvCache::resize(std::uint32_t length) {
  EDGEDRAFT_CHECK(length <= slots());
  const bool shorter = length < length_;
  const bool keeps_all = can_keep(length);
  length_ = length;
  if (pool_ == nullptr || !shorter) return;
  if (!keeps_all) length_ -= length % pool_->size().page_slots;
  trim();
}

bool KvCache::can_keep(std::uint32_t length) const {
  if (recurrent_ != nullptr && length < recurrent_->settled()) return false;
  return length >= length_ ? length <= slots() : can_cut(length);
}

bool KvCache::can_cut(std::uint32_t length) const {
  if (pool_ == nullptr) return true;
  const std::uint32_t page_slots = pool_->size().page_slots;
  return length % page_slots == 0 || pool_->holders(pages_[length / page_slots]) == 1;
}

void KvCache::keep(std::span<const std::uint32_t> slots) {
  const auto count = static_cast<std::uint32_t>(slots.size());
  std::uint32_t in_place = 0;
  while (in_place < count && slots[in_place] == length_ + in_place) ++in_place;
  // A plain chain moves nothing; a GPU would still launch kernels.
  if (in_place < count) {
    for_each_view([&](const CacheView& view) {
      backend_->compact(
          {.cache = view, .first = length_ + in_place, .slots = slots.subspan(in_place)});
    });
  }
  if (recurrent_ != nullptr) recurrent_->keep(slots);
  resize(length_ + count);
}

bool KvCache::reserve(std::uint32_t slots) {
  EDGEDRAFT_CHECK(slots <= capacity_);
  if (slots <= this->slots()) return true;
  const std::uint32_t wanted = pool_->size().pages_for(slots);
  if (wanted - pages_.size() > pool_->free_count()) return false;
  while (pages_.size() < wanted) pages_.push_back(pool_->take());
  update_views();
  return true;
}

void KvCache::trim() {
  if (pool_ != nullptr) give_back_from(pool_->size().pages_for(length_));
}

void KvCache::adopt(std::span<const std::uint32_t> pages, const StateCheckpoint* states) {
  EDGEDRAFT_CHECK((recurrent_ == nullptr) == (states == nullptr));
  if (states != nullptr) {
    EDGEDRAFT_CHECK(states->length() == pages.size() * pool_->size().page_slots);
    recurrent_->restore(*states);
  }
  for (const std::uint32_t page : pages) pool_->share(page);
  give_back_from(0);
  pages_.assign(pages.begin(), pages.end());
  length_ = slots();
  update_views();
}

void KvCache::give_back_from(std::uint32_t page) {
  if (page >= pages_.size()) return;
  // Last page first, so that the next cache gets them in order.
  for (std::size_t i = pages_.size(); i-- > page;) pool_->give_back(pages_[i]);
  pages_.resize(page);
  update_views();
}

void KvCache::update_views() {
  for_each_view([&](CacheView& view) { view.pages = pages_; });
}

const CacheView& KvCache::states(std::uint32_t state) const {
  const auto found = std::ranges::find(planes_.states, state);
  EDGEDRAFT_CHECK(found != planes_.states.end());
  return states_[static_cast<std::size_t>(found - planes_.states.begin())];
}

}  // namespace edgedraft
