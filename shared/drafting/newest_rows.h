#pragma once

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <iterator>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "shared/base/check.h"

namespace edgedraft {

// A target's activations at the newest positions that arrived, in host memory; older ones are
// dropped.
class NewestRows {
 public:
  explicit NewestRows(std::uint32_t kept) : kept_(kept) {}

  // Adds rows of positions first, first + 1, ...; only `cols` values from `col` on are kept.
  // Shapes    rows [n, stride]
  void add(std::uint32_t first, std::span<const float> rows, std::size_t stride, std::size_t col,
           std::size_t cols) {
    EDGEDRAFT_CHECK(rows.size() % stride == 0 && col + cols <= stride);
    const std::size_t count = rows.size() / stride;
    for (std::size_t i = count - std::min<std::size_t>(count, kept_); i < count; ++i) {
      const auto row = rows.subspan(i * stride + col, cols);
      rows_.insert_or_assign(first + static_cast<std::uint32_t>(i),
                             std::vector<float>(row.begin(), row.end()));
    }
    while (rows_.size() > kept_) rows_.erase(rows_.begin());
  }
  void add(std::uint32_t first, std::span<const float> rows, std::size_t cols) {
    add(first, rows, cols, 0, cols);
  }
  // Drops positions from `first` on. Returns whether there were any.
  bool drop(std::uint32_t first) {
    const auto dropped = rows_.lower_bound(first);
    const bool any = dropped != rows_.end();
    rows_.erase(dropped, rows_.end());
    return any;
  }

  std::optional<std::uint32_t> newest_before(std::uint32_t end) const {
    const auto behind = rows_.lower_bound(end);
    if (behind == rows_.begin()) return std::nullopt;
    return std::prev(behind)->first;
  }
  // Requires  a position that is kept
  std::span<const float> at(std::uint32_t position) const { return rows_.at(position); }

 private:
  std::size_t kept_;
  std::map<std::uint32_t, std::vector<float>> rows_;
};

}  // namespace edgedraft
