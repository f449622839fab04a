#include "server/proposers/lookahead.h"

#include <algorithm>
#include <utility>

#include "shared/base/check.h"

namespace edgedraft::server {
namespace {

constexpr std::size_t kKeysMax = 8192;

}  // namespace

LookaheadWindow::LookaheadWindow(const Shape& shape, std::function<std::uint32_t()> token,
                                 std::function<bool(std::uint32_t)> is_end)
    : shape_(shape), token_(std::move(token)), is_end_(std::move(is_end)), levels_(1) {
  EDGEDRAFT_CHECK(shape.n >= 3 && shape.width + 2 >= shape.n && shape.width >= 2 &&
                  rows_max(shape) <= kTreeNodesMax);
  // Each pass while filling removes one.
  for (std::uint32_t i = 0; i < shape.width + shape.n - 3; ++i) levels_[0].push_back(token_());
}

DraftTree LookaheadWindow::rows() const {
  DraftTree tree;
  std::vector<std::vector<std::uint32_t>> row_of(levels_.size());
  for (std::size_t level = 0; level < levels_.size(); ++level) {
    for (std::size_t i = 0; i < levels_[level].size(); ++i) {
      std::uint32_t parent = 0;
      if (level > 1) {
        parent = row_of[level - 1][i];
      } else if (i > 0) {
        parent = row_of[0][i - 1];
      }
      row_of[level].push_back(tree.add(levels_[level][i], parent));
    }
  }
  return tree;
}

std::vector<LookaheadWindow::Written> LookaheadWindow::advance(
    std::uint32_t root, std::span<const std::uint32_t> likeliest) {
  EDGEDRAFT_CHECK(likeliest.size() == asked_count());
  std::vector<Written> found;
  if (filled()) {
    for (std::size_t i = 0; i < likeliest.size(); ++i) {
      Written written{.key = i == 0 ? root : levels_[0][i - 1], .sequence = {}};
      for (std::size_t level = 1; level < levels_.size(); ++level) {
        written.sequence.push_back(levels_[level][i]);
      }
      written.sequence.push_back(likeliest[i]);
      found.push_back(std::move(written));
    }
  }
  std::vector<std::uint32_t> last(likeliest.begin(), likeliest.end());
  for (std::uint32_t& token : last) {
    if (is_end_(token)) token = token_();
  }
  // Advances by one position: column i + 1 becomes column i. A level that moves up is already one
  // position further.
  const auto next_column = [](std::vector<std::uint32_t>& level) { level.erase(level.begin()); };
  if (filled()) {
    levels_.erase(levels_.begin());
    next_column(levels_[0]);
  } else {
    for (auto& level : levels_) next_column(level);
    if (levels_.size() > 1) next_column(last);
  }
  levels_.push_back(std::move(last));
  return found;
}

Lookahead::Lookahead(const LookaheadOptions& options, std::function<bool(std::uint32_t)> is_end)
    : options_(options),
      is_end_(std::move(is_end)),
      pool_({.keys_max = kKeysMax, .sequences_max = options.guesses}) {}

void Lookahead::guess(std::span<const std::uint32_t> tokens, GuessList& guesses) const {
  std::size_t rank = 0;
  for (const auto& sequence : pool_.find(tokens.back())) {
    guesses.add(forward_guess(sequence, rank++));
  }
}

Probes Lookahead::ask(std::span<const std::uint32_t> tokens, std::uint32_t rows_max,
                      std::uint32_t depth_max) {
  if (rows_max < this->rows_max() || depth_max < LookaheadWindow::depth_max(options_.window)) {
    return {};
  }
  if (!window_) {
    text_.assign(tokens.begin(), tokens.end());
    window_.emplace(
        options_.window, [this] { return text_[random_.below(text_.size())]; }, is_end_);
  }
  return {.rows = window_->rows(), .asked_count = window_->asked_count()};
}

void Lookahead::learn(std::uint32_t root, std::span<const std::uint32_t> likeliest) {
  for (const LookaheadWindow::Written& written : window_->advance(root, likeliest)) {
    pool_.add(written.key, written.sequence);
  }
}

}  // namespace edgedraft::server
