#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "shared/drafting/drafter.h"

namespace edgedraft {

// Which activations the drafter has: those of a prompt come newest first, those of cycles follow.
class DrafterMemory {
 public:
  // `drafter` may be null and outlives it.
  explicit DrafterMemory(Drafter* drafter) : drafter_(drafter) {}

  bool wants_rows() const { return drafter_ && drafter_->activation_cols() > 0; }
  // The drafter needs activations and has none: its logits mean nothing.
  bool is_blind() const { return wants_rows() && rows_end_ == 0; }
  // Positions below have theirs, or those whose rows the drafter reads; the first that a request
  // has to ask for.
  std::uint32_t complete_end() const { return complete_end_; }
  // Older rows of a prompt are still to come.
  bool pending() const { return pending_; }

  // Tokens from `base` on are about to be put to the server. Rows that came for positions behind
  // the last complete block come again.
  void expect_from(std::uint32_t base) {
    complete_end_ = rows_end_ = std::min(base, complete_end_);
    if (drafter_) drafter_->drop_activations(complete_end_);
    pending_ = wants_rows();
  }
  // The server took the tokens in; `end` of them have rows.
  void expect_until(std::uint32_t end) {
    pending_ = pending_ && complete_end_ < end;
    taken_end_ = end;
  }

  // A part of a prompt's rows, of which those count whose tokens still stand. Requires  a drafter
  void add_part(std::uint32_t first, std::uint32_t count, std::span<const float> rows,
                bool complete) {
    const std::uint32_t end = std::min(first + count, taken_end_);
    if (first < end) {
      drafter_->add_activations(first, rows.first(rows.size() / count * (end - first)));
      rows_end_ = std::max(rows_end_, end);
    }
    if (!complete) return;
    pending_ = false;
    complete_end_ = rows_end_;
  }
  // A cycle's rows. Requires  a drafter
  void add_cycle(std::uint32_t first, std::uint32_t count, std::span<const float> rows) {
    drafter_->add_activations(first, rows);
    rows_end_ = first + count;
    if (!pending_) complete_end_ = rows_end_;
  }

  // The tokens from `count` on are gone, from the drafter as well.
  void truncated(std::uint32_t count) {
    complete_end_ = std::min(complete_end_, count);
    rows_end_ = std::min(rows_end_, count);
    taken_end_ = std::min(taken_end_, count);
  }
  // Forgets the rows of positions from `first` on.
  void drop_from(std::uint32_t first) {
    if (drafter_) drafter_->drop_activations(first);
    truncated(first);
  }

 private:
  Drafter* drafter_;
  std::uint32_t complete_end_ = 0;
  std::uint32_t rows_end_ = 0;   // newest position that has rows, once the older ones came too
  std::uint32_t taken_end_ = 0;  // tokens below stand as the server took them in
  bool pending_ = false;
};

}  // namespace edgedraft
