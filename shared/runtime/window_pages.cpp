#include "shared/runtime/window_pages.h"

#include <algorithm>

#include "shared/base/check.h"

namespace edgedraft {
namespace {

std::uint32_t page_before(std::uint32_t length, std::uint64_t positions, std::uint32_t page_slots) {
  return length > positions ? static_cast<std::uint32_t>((length - positions) / page_slots) : 0;
}

}  // namespace

WindowPages::WindowPages(KvPool& pool, std::uint32_t window) : pool_(pool), window_(window) {
  EDGEDRAFT_CHECK(window > 0);
}

WindowPages::~WindowPages() {
  give_back_from(0);
  pool_.release(promised_);
}

std::uint32_t WindowPages::pages_for(std::uint32_t window, std::uint32_t slots,
                                     std::uint32_t page_slots) {
  // Positions kept before a pass and its rows, in pages cut at both ends.
  const std::uint64_t bound =
      (std::uint64_t{window} + 2 * kMaskRowsMax + page_slots - 2) / page_slots + 1;
  const std::uint64_t all = (std::uint64_t{slots} + page_slots - 1) / page_slots;
  return static_cast<std::uint32_t>(std::min(bound, all));
}

std::uint32_t WindowPages::needed_from(std::uint32_t window, std::uint32_t length,
                                       std::uint32_t page_slots) {
  return page_before(length, window - 1, page_slots);
}

std::uint32_t WindowPages::kept_from(std::uint32_t window, std::uint32_t length,
                                     std::uint32_t page_slots) {
  return page_before(length, std::uint64_t{window} - 1 + kMaskRowsMax, page_slots);
}

bool WindowPages::covers(std::uint32_t length) const {
  return needed_from(window_, length, pool_.size().page_slots) >= first_;
}

bool WindowPages::is_shared(std::uint32_t page) const {
  return page >= first_ && page < table_.size() && pool_.holders(table_[page]) > 1;
}

std::uint32_t WindowPages::promise_for(std::uint32_t slots) const {
  return pages_for(window_, slots, pool_.size().page_slots);
}

bool WindowPages::can_promise(std::uint32_t slots) const {
  const std::uint32_t wanted = promise_for(slots);
  return wanted <= promised_ || pool_.can_promise(wanted - promised_);
}

bool WindowPages::promise(std::uint32_t slots) {
  if (!can_promise(slots)) return false;
  const std::uint32_t wanted = std::max(promise_for(slots), promised_);
  pool_.promise(wanted - promised_);
  promised_ = wanted;
  return true;
}

void WindowPages::take(std::uint32_t slots) {
  const std::uint32_t page_slots = pool_.size().page_slots;
  while (table_.size() * std::uint64_t{page_slots} < slots) table_.push_back(pool_.take());
  EDGEDRAFT_CHECK(held().size() <= promised_);
}

void WindowPages::slide(std::uint32_t length) {
  const std::uint32_t kept = kept_from(window_, length, pool_.size().page_slots);
  for (; first_ < kept; ++first_) {
    pool_.give_back(table_[first_]);
    table_[first_] = 0;
  }
}

void WindowPages::cut(std::uint32_t length) {
  EDGEDRAFT_CHECK(length == 0 || covers(length));
  give_back_from(pool_.size().pages_for(length));
  const std::uint32_t wanted = std::min(promised_, promise_for(length));
  pool_.release(promised_ - wanted);
  promised_ = wanted;
}

void WindowPages::adopt(std::uint32_t page_count, std::span<const std::uint32_t> pages) {
  EDGEDRAFT_CHECK(pages.size() <= page_count);
  for (const std::uint32_t page : pages) pool_.share(page);
  give_back_from(0);
  first_ = page_count - static_cast<std::uint32_t>(pages.size());
  table_.assign(first_, 0);
  table_.insert(table_.end(), pages.begin(), pages.end());
}

void WindowPages::give_back_from(std::uint32_t page) {
  // Last page first, so that the next cache gets them in order.
  while (table_.size() > std::max(page, first_)) {
    pool_.give_back(table_.back());
    table_.pop_back();
  }
  if (page <= first_) {
    table_.resize(std::min<std::size_t>(page, table_.size()));
    first_ = static_cast<std::uint32_t>(table_.size());
  }
}

}  // namespace edgedraft
