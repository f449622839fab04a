#include "shared/runtime/kv_cache.h"

#include <algorithm>
#include <numeric>
#include <utility>

#include "shared/base/check.h"
#include "shared/runtime/checkpoint_pool.h"

namespace edgedraft {

namespace {

// All pages of windows come from one pool, so the largest window decides how long they stay.
std::uint32_t largest(std::span<const std::uint32_t> windows) {
  return *std::ranges::max_element(windows);
}

}  // namespace

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
  std::uint64_t used = 0;  // bytes, whole elements or blocks of each type
  const auto rows = [&](std::uint32_t cols, DType type) {
    const CacheRows part(memory_.get(), elements_in(type, used), size.capacity, cols, type);
    used += cache_bytes(type, size.capacity * part.stride);
    return part;
  };
  for (const std::uint32_t cols : size.kv_cols) {
    keys_.emplace_back(rows(cols, size.type));
    values_.emplace_back(rows(cols, size.type));
  }
  for (std::uint32_t plane = 0; plane < planes_.count(); ++plane) {
    states_.emplace_back(rows(planes_.cols, plane_type(size.type)));
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

KvCache::KvCache(KvPool& pool, KvPool& windowed, std::span<const std::uint32_t> windows,
                 std::uint32_t capacity)
    : backend_(&pool.backend()),
      pool_(&pool),
      capacity_(capacity),
      windowed_(std::make_unique<WindowPages>(windowed, largest(windows))),
      planes_(pool.size().planes) {
  EDGEDRAFT_CHECK(pool.size().page_slots == windowed.size().page_slots);
  EDGEDRAFT_CHECK(windows.size() == pool.size().kv_cols.size() + windowed.size().kv_cols.size());
  std::uint32_t of_pool = 0;
  std::uint32_t of_windows = 0;
  for (const std::uint32_t window : windows) {
    const KvPool& from = window > 0 ? windowed : pool;
    const std::uint32_t layer = window > 0 ? of_windows++ : of_pool++;
    keys_.emplace_back(from.keys(layer), pages_, from.size().page_slots);
    values_.emplace_back(from.values(layer), pages_, from.size().page_slots);
    is_windowed_.push_back(window > 0);
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
      const std::uint32_t saved = recurrent_->saved();
      length = recurrent_->go_back(kept_length(saved) == saved ? length : 0);
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
  length_ = kept_length(length);
  if (shorter) trim();
  if (windowed_ == nullptr) return;
  windowed_->slide(length_);
  update_views();
}

std::uint32_t KvCache::kept_length(std::uint32_t length) const {
  if (pool_ == nullptr || length >= length_) return length;
  const std::uint32_t page_slots = pool_->size().page_slots;
  const std::uint32_t page = length / page_slots;
  const bool is_shared =
      pool_->holders(pages_[page]) > 1 || (windowed_ != nullptr && windowed_->is_shared(page));
  if (is_shared) length -= length % page_slots;
  return windowed_ == nullptr || windowed_->covers(length) ? length : 0;
}

bool KvCache::can_keep(std::uint32_t length) const {
  if (recurrent_ != nullptr && length < recurrent_->settled()) return false;
  return length <= slots() && kept_length(length) == length;
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
  if (slots <= this->slots() && windowed_ == nullptr) return true;
  const std::uint32_t wanted =
      std::max(pool_->size().pages_for(slots), static_cast<std::uint32_t>(pages_.size()));
  if (wanted - pages_.size() > pool_->free_count()) return false;
  if (windowed_ != nullptr && !windowed_->promise(slots)) return false;
  while (pages_.size() < wanted) pages_.push_back(pool_->take());
  update_views();
  return true;
}

bool KvCache::has_windows_for(std::uint32_t slots) const {
  return windowed_ == nullptr || windowed_->can_promise(slots);
}

void KvCache::begin_rows(std::span<const std::uint32_t> positions, std::uint32_t first_slot) {
  if (windowed_ == nullptr || positions.empty()) return;
  EDGEDRAFT_CHECK(windowed_->covers(*std::ranges::min_element(positions)));
  windowed_->take(first_slot + static_cast<std::uint32_t>(positions.size()));
  update_views();
}

void KvCache::trim() {
  if (pool_ == nullptr) return;
  give_back_from(pool_->size().pages_for(length_));
  if (windowed_ == nullptr) return;
  windowed_->cut(length_);
  update_views();
}

void KvCache::adopt(std::span<const std::uint32_t> pages, std::span<const std::uint32_t> windowed,
                    const StateCheckpoint* states) {
  EDGEDRAFT_CHECK((recurrent_ == nullptr) == (states == nullptr));
  if (states != nullptr) {
    EDGEDRAFT_CHECK(states->length() == pages.size() * pool_->size().page_slots);
    recurrent_->restore(*states);
  }
  if (windowed_ != nullptr) {
    windowed_->adopt(static_cast<std::uint32_t>(pages.size()), windowed);
  }
  for (const std::uint32_t page : pages) pool_->share(page);
  give_back_from(0);
  pages_.assign(pages.begin(), pages.end());
  length_ = slots();
  EDGEDRAFT_CHECK(windowed_ == nullptr || windowed_->covers(length_));
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
  for (std::size_t layer = 0; layer < is_windowed_.size(); ++layer) {
    if (is_windowed_[layer]) keys_[layer].pages = values_[layer].pages = windowed_->table();
  }
}

const CacheView& KvCache::states(std::uint32_t state) const {
  const auto found = std::ranges::find(planes_.states, state);
  EDGEDRAFT_CHECK(found != planes_.states.end());
  return states_[static_cast<std::size_t>(found - planes_.states.begin())];
}

}  // namespace edgedraft
