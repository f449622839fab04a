#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "shared/runtime/kv_pool.h"

namespace edgedraft {

// Pages of one sequence in the layers whose rows see only the last `window` positions. Pages that
// no later row sees return to the pool, so a sequence holds at most pages_max() of them.
//
// A sequence can still go back by kMaskRowsMax positions: text that is checked in one pass may be
// wrong from its first token on.
//
// Threads   one at a time
class WindowPages {
 public:
  // Requires  the pool outlives it, window > 0
  WindowPages(KvPool& pool, std::uint32_t window);
  ~WindowPages();
  WindowPages(const WindowPages&) = delete;
  WindowPages& operator=(const WindowPages&) = delete;

  // Pages of a sequence of `slots` slots, at most.
  static std::uint32_t pages_for(std::uint32_t window, std::uint32_t slots,
                                 std::uint32_t page_slots);
  // First page that a sequence of `length` positions needs for its next row.
  static std::uint32_t needed_from(std::uint32_t window, std::uint32_t length,
                                   std::uint32_t page_slots);
  // First page that it keeps, to be able to go back.
  static std::uint32_t kept_from(std::uint32_t window, std::uint32_t length,
                                 std::uint32_t page_slots);

  // The page table from slot 0 on. Entries before first() name any page: attention gives them no
  // weight (AttentionOp).
  std::span<const std::uint32_t> table() const { return table_; }
  std::uint32_t first() const { return first_; }
  // Pages from first() on.
  std::span<const std::uint32_t> held() const { return table().subspan(first_); }
  // True if the next row of a sequence of `length` positions sees only pages that are held.
  bool covers(std::uint32_t length) const;
  // True if others hold the page as well.
  bool is_shared(std::uint32_t page) const;

  // Sets pages aside for a sequence of `slots` slots, so that take() finds them. False, setting
  // none aside, if others have too many.
  [[nodiscard]] bool promise(std::uint32_t slots);
  bool can_promise(std::uint32_t slots) const;
  // Takes pages up to slot slots - 1.
  // Requires  promise() of them
  void take(std::uint32_t slots);
  // Returns pages that rows after `length` positions do not need.
  void slide(std::uint32_t length);
  // Returns the pages after `length` positions.
  // Requires  length == 0 or covers(length)
  void cut(std::uint32_t length);
  // Replaces its pages by those of a prefix of `page_count` pages, of which `pages` are the last.
  void adopt(std::uint32_t page_count, std::span<const std::uint32_t> pages);

 private:
  std::uint32_t promise_for(std::uint32_t slots) const;
  void give_back_from(std::uint32_t page);

  KvPool& pool_;
  std::uint32_t window_;
  std::vector<std::uint32_t> table_;
  std::uint32_t first_ = 0;
  std::uint32_t promised_ = 0;
};

}  // namespace edgedraft
