#include "server/proposers/lookahead.h"

#include <algorithm>
#include <utility>

#include "server/proposers/guess_list.h"

namespace edgedraft::server {
namespace {

constexpr std::size_t kKeysMax = 8192;

}  // namespace

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
