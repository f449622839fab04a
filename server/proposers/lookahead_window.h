#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "server/sessions/target_session.h"

namespace edgedraft::server {

// Lookahead's window: guesses of coming tokens, refined by one Jacobi iteration per pass (Fu et
// al., 2024). Columns are consecutive positions, levels the last n - 1 passes' guesses. The first
// level is a sequence of tokens after the root. A column's token of level r follows its token of
// level r - 1. Its token of level 1 follows the first level's token of the previous column. So
// column i of level r is i + r positions after the root (level 0: i + 1), and the window is a tree.
//
// A pass yields the successors of the last level: with the columns' tokens they form n-grams that
// the target itself generated. Then all levels move up by one and one position on. The window
// starts with one level, longer than its final width; each pass adds one until there are n - 1.
class LookaheadWindow {
 public:
  struct Shape {
    std::uint32_t n;      // tokens per n-gram, its key included
    std::uint32_t width;  // columns
  };
  // `token` fills the first level and replaces end tokens, which have no successor.
  // Requires  3 <= n, 2 <= width, n - 2 <= width, rows_max() within a tree
  LookaheadWindow(const Shape& shape, std::function<std::uint32_t()> token,
                  std::function<bool(std::uint32_t)> is_end);

  // Rows of a full window, the maximum.
  static std::uint32_t rows_max(const Shape& shape) { return (shape.n - 1) * shape.width - 1; }
  // Deepest position after the root.
  static std::uint32_t depth_max(const Shape& shape) { return shape.n + shape.width - 3; }

  // Rows for the next pass, the last level at the end.
  DraftTree rows() const;
  std::uint32_t asked_count() const { return static_cast<std::uint32_t>(levels_.back().size()); }

  struct Written {
    std::uint32_t key;
    std::vector<std::uint32_t> sequence;  // n - 1 tokens
  };
  // The pass ran after `root` and returned `likeliest` for the queried rows. Returns the completed
  // n-grams: one per column, none while the window fills.
  // Requires likeliest.size() == asked_count()
  std::vector<Written> advance(std::uint32_t root, std::span<const std::uint32_t> likeliest);

 private:
  bool filled() const { return levels_.size() == shape_.n - 1; }

  Shape shape_;
  std::function<std::uint32_t()> token_;
  std::function<bool(std::uint32_t)> is_end_;
  // levels_[r][i] is column i of level r.
  std::vector<std::vector<std::uint32_t>> levels_;
};

}  // namespace edgedraft::server
