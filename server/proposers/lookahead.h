#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "server/proposers/probing_proposer.h"
#include "server/proposers/sequence_dictionaries.h"
#include "server/sessions/target_session.h"
#include "shared/base/random.h"

namespace edgedraft::server {

// Lookahead's window: guesses of coming tokens, refined by one Jacobi iteration per pass (Fu et
// al., 2024). Columns are consecutive positions, levels the last n - 1 passes' guesses. The first
// level is a sequence of tokens after the root. A column's token of level r follows its token of
// level r - 1, and that of level 1 follows the first level's token of the previous column. So
// column i of level r is i + r positions after the root (level 0: i + 1), and the window is a tree.
//
// A pass yields the successors of the last level: with the columns' tokens they form n-grams that
// the target itself generated. Then every level moves up by one, and forward by one position. The
// window starts with one level, longer than its final width; each pass adds one, up to n - 1.
class LookaheadWindow {
 public:
  struct Shape {
    std::uint32_t n;      // tokens per n-gram, its key included
    std::uint32_t width;  // columns
  };
  // `token` fills the first level and replaces end tokens, which have no successor.
  // Requires  3 <= n, 2 <= width, n - 2 <= width, and room for rows_max() in a tree
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

struct LookaheadOptions {
  LookaheadWindow::Shape window{.n = 5, .width = 15};
  std::uint32_t guesses = 15;  // per pass, and sequences that the n-gram pool keeps per key token
};

// Lookahead decoding: guesses the n-grams in the window's pool that start with the root.
//
// Source    Fu, Bailis, Stoica and Zhang, Break the Sequential Dependency of LLM Inference Using
//           Lookahead Decoding (2024); sizes as in the SPECTRA paper, appendix B
class Lookahead final : public ProbingMethod {
 public:
  // Requires  a window that LookaheadWindow takes
  Lookahead(const LookaheadOptions& options, std::function<bool(std::uint32_t)> is_end);

  std::uint32_t rows_max() const override { return LookaheadWindow::rows_max(options_.window); }
  std::size_t guesses_max() const override { return options_.guesses; }
  std::size_t guess_length_max() const override { return options_.window.n - 1; }

  void guess(std::span<const std::uint32_t> tokens, GuessList& guesses) const override;
  // The whole window or nothing.
  Probes ask(std::span<const std::uint32_t> tokens, std::uint32_t rows_max,
             std::uint32_t depth_max) override;
  void learn(std::uint32_t root, std::span<const std::uint32_t> likeliest) override;

  const ForwardDictionary& pool() const { return pool_; }

 private:
  LookaheadOptions options_;
  std::function<bool(std::uint32_t)> is_end_;
  Random random_{0};
  std::vector<std::uint32_t> text_;  // source of the window's initial tokens
  std::optional<LookaheadWindow> window_;
  ForwardDictionary pool_;
};

}  // namespace edgedraft::server
