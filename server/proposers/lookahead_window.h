#pragma once

#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "server/sessions/target_session.h"

namespace edgedraft {

// Lookahead's window: guesses at the tokens to come that each pass makes better, a step of Jacobi
// iteration (Fu et al., 2024). Its columns stand at the next positions, its levels are the last n -
// 1 passes' guesses. The first level is a row of tokens that follow the root; a column's token of
// level r follows its token of level r - 1, and that of level 1 the first level's token before the
// column. So column i of level r stands i + r behind the root (of level 0: i + 1), and the window
// is a tree.
//
// A pass tells what follows the last level: with the columns' tokens these are n-grams that the
// target itself wrote. Then all move up a level and one position on. At the start the window has
// one level, longer than it will be; each pass adds one until there are n - 1.
class LookaheadWindow {
 public:
  struct Shape {
    std::uint32_t n;      // tokens of an n-gram, its key included
    std::uint32_t width;  // columns
  };
  // `token` makes up the first level, and what takes the place of end tokens, which nothing
  // follows. Requires  3 <= n, 2 <= width, n - 2 <= width, and room for rows_max() in a tree
  LookaheadWindow(const Shape& shape, std::function<std::uint32_t()> token,
                  std::function<bool(std::uint32_t)> is_end);

  // The rows of a whole window; while it fills it has no more.
  static std::uint32_t rows_max(const Shape& shape) { return (shape.n - 1) * shape.width - 1; }
  // Positions behind the root that it reaches.
  static std::uint32_t depth_max(const Shape& shape) { return shape.n + shape.width - 3; }

  // The rows for the next pass, the last level at their end.
  DraftTree rows() const;
  std::uint32_t asked_count() const { return static_cast<std::uint32_t>(levels_.back().size()); }

  struct Written {
    std::uint32_t key;
    std::vector<std::uint32_t> sequence;  // n - 1 tokens
  };
  // The pass was made behind `root` and found `likeliest` behind the asked rows. Returns the
  // n-grams that it completes: a column each, none while the window fills. Requires
  // likeliest.size() == asked_count()
  std::vector<Written> advance(std::uint32_t root, std::span<const std::uint32_t> likeliest);

 private:
  bool filled() const { return levels_.size() == shape_.n - 1; }

  Shape shape_;
  std::function<std::uint32_t()> token_;
  std::function<bool(std::uint32_t)> is_end_;
  // levels_[r][i] is column i of level r.
  std::vector<std::vector<std::uint32_t>> levels_;
};

}  // namespace edgedraft
