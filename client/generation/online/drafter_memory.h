#pragma once

#include <algorithm>
#include <cstdint>
#include <span>

#include "shared/drafting/drafter.h"

namespace edgedraft::client {

// Tracks the drafter's activations. A prompt's rows arrive newest first, then those of cycles.
class DrafterMemory {
 public:
  // `drafter` may be null and outlives it.
  explicit DrafterMemory(Drafter* drafter) : drafter_(drafter) {}

  bool wants_rows() const { return drafter_ && drafter_->activation_cols() > 0; }
  // True if the drafter needs activations and has none, so its logits mean nothing.
  bool is_blind() const { return wants_rows() && rows_end_ == 0; }
  // Positions below it have the rows that the drafter reads; the first position that a request has
  // to ask for.
  std::uint32_t complete_end() const { return complete_end_; }
  // True if older rows of a prompt are still to come.
  bool pending() const { return pending_; }

  // Call before tokens from `base` on are sent. Rows that arrived for positions after the last
  // complete block are sent again.
  void expect_from(std::uint32_t base) {
    complete_end_ = rows_end_ = std::min(base, complete_end_);
    if (drafter_) drafter_->drop_activations(complete_end_);
    pending_ = wants_rows();
  }
  // Call after the server took the tokens in; `end` of them have rows.
  void expect_until(std::uint32_t end) {
    pending_ = pending_ && complete_end_ < end;
    taken_end_ = end;
  }

  // Adds a part of a prompt's rows, ignoring rows of tokens that changed since. Requires  a drafter
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
  // Adds a cycle's rows. Requires  a drafter
  void add_cycle(std::uint32_t first, std::uint32_t count, std::span<const float> rows) {
    drafter_->add_activations(first, rows);
    rows_end_ = first + count;
    if (!pending_) complete_end_ = rows_end_;
  }

  // Call after the tokens from `count` on were removed, also from the drafter.
  void truncated(std::uint32_t count) {
    complete_end_ = std::min(complete_end_, count);
    rows_end_ = std::min(rows_end_, count);
    taken_end_ = std::min(taken_end_, count);
  }
  // Drops the rows of positions from `first` on.
  void drop_from(std::uint32_t first) {
    if (drafter_) drafter_->drop_activations(first);
    truncated(first);
  }

 private:
  Drafter* drafter_;
  std::uint32_t complete_end_ = 0;
  std::uint32_t rows_end_ = 0;   // end of the rows, once the older ones have arrived too
  std::uint32_t taken_end_ = 0;  // tokens below equal those that the server received
  bool pending_ = false;
};

}  // namespace edgedraft::client
