#include "server/proposers/spectra_core.h"

#include <algorithm>
#include <optional>

#include "shared/base/check.h"

namespace edgedraft::server {
namespace {

constexpr std::size_t kForwardKeysMax = 8192;
constexpr std::size_t kBackwardKeysMax = 16384;

}  // namespace

SpectraCore::SpectraCore(const SpectraCoreOptions& options)
    : options_(options),
      forward_({.keys_max = kForwardKeysMax, .sequences_max = options.guesses}),
      backward_(kBackwardKeysMax) {
  EDGEDRAFT_CHECK(options.n >= 2 && options.n <= BackwardDictionary::kKeyMax + 1 &&
                  options.width >= 1 && rows_max() <= kTreeNodesMax);
}

Guess SpectraCore::backward_guess(std::span<const std::uint32_t> tokens) const {
  const std::size_t context_max = options_.n - 1;
  std::vector<std::uint32_t> text(
      tokens.end() - static_cast<std::ptrdiff_t>(std::min(context_max, tokens.size())),
      tokens.end());
  Guess guess;
  while (guess.tokens.size() < options_.n - 1) {
    std::optional<std::uint32_t> next;
    std::size_t context = std::min(context_max, text.size());
    for (; context > 0; --context) {
      const auto* const found = backward_.find(std::span(text).last(context));
      if (found == nullptr) continue;
      next = *found;
      break;
    }
    if (!next) break;
    text.push_back(*next);
    guess.tokens.push_back(*next);
    guess.log_probs.push_back(backward_log_prob(context));
  }
  return guess;
}

void SpectraCore::guess(std::span<const std::uint32_t> tokens, GuessList& guesses) const {
  guesses.add(backward_guess(tokens));
  std::size_t rank = 0;
  for (const auto& sequence : forward_.find(tokens.back())) {
    guesses.add(forward_guess(sequence, rank++));
  }
}

Probes SpectraCore::ask(std::span<const std::uint32_t> tokens, std::uint32_t rows_max,
                        std::uint32_t depth_max) {
  const std::uint32_t length = options_.n - 1;
  const std::uint32_t count = std::min(options_.width, rows_max / length);
  if (depth_max < length || count == 0) return {};
  while (pool_.size() < options_.width) {
    auto& sequence = pool_.emplace_back();
    while (sequence.size() < length) sequence.push_back(tokens[random_.below(tokens.size())]);
  }
  Probes probes;
  asked_.clear();
  for (std::uint32_t i = 0; i < count; ++i) asked_.emplace_back((next_ + i) % pool_.size(), 0);
  // The first token of all sequences, then the second, so that the last rows are the last tokens.
  std::uint32_t first_asked = 1;
  for (std::uint32_t j = 0; j < length; ++j) {
    first_asked = probes.rows.row_count();
    for (auto& [sequence, row] : asked_) {
      const std::uint32_t token = pool_[sequence][j];
      const std::uint32_t known = probes.rows.child(row, token);
      row = known != 0 ? known : probes.rows.add(token, row);
    }
  }
  for (auto& [sequence, row] : asked_) row -= first_asked;
  probes.asked_count = probes.rows.row_count() - first_asked;
  return probes;
}

void SpectraCore::learn(std::uint32_t /*root*/, std::span<const std::uint32_t> likeliest) {
  for (const auto& [sequence, row] : asked_) {
    pool_[sequence].push_back(likeliest[row]);
    add(pool_[sequence]);
    pool_[sequence].erase(pool_[sequence].begin());
  }
  next_ = (next_ + asked_.size()) % pool_.size();
}

void SpectraCore::add(std::span<const std::uint32_t> sequence) {
  for (std::size_t next = 1; next < sequence.size(); ++next) {
    forward_.add(sequence[next - 1], sequence.subspan(next));
    backward_.set(sequence.first(next), sequence[next]);
  }
}

}  // namespace edgedraft::server
