#include "tests/bench/rules/sparse_distribution.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "shared/base/check.h"

namespace edgedraft {

SparseDistribution::SparseDistribution(std::vector<Entry> entries) : entries_(std::move(entries)) {
  for (const Entry& entry : entries_) {
    EDGEDRAFT_CHECK(entry.weight > 0);
    total_ += entry.weight;
  }
}

SparseDistribution::SparseDistribution(std::span<const DraftGuess> guesses, double temperature) {
  if (guesses.empty()) return;
  const double best = std::ranges::max(guesses, {}, &DraftGuess::log_prob).log_prob;
  for (const DraftGuess& guess : guesses) {
    const double weight = std::round(kWeightMax * std::exp((guess.log_prob - best) / temperature));
    if (!(weight >= 1.0)) continue;
    entries_.push_back({.token = guess.token, .weight = static_cast<std::uint16_t>(weight)});
    total_ += entries_.back().weight;
  }
}

double SparseDistribution::probability(std::uint32_t token) const {
  const auto found = std::ranges::find(entries_, token, &Entry::token);
  return found == entries_.end() ? 0.0
                                 : static_cast<double>(found->weight) / static_cast<double>(total_);
}

SparseDistribution SparseDistribution::without(std::uint32_t token) const {
  std::vector<Entry> rest = entries_;
  EDGEDRAFT_CHECK(std::erase_if(rest, [=](const Entry& e) { return e.token == token; }) == 1);
  return SparseDistribution(std::move(rest));
}

std::vector<std::uint32_t> SparseDistribution::draw(std::size_t count,
                                                    const std::function<double()>& uniform) const {
  std::vector<std::uint32_t> drawn;
  SparseDistribution distribution = *this;
  while (drawn.size() < count && !distribution.entries_.empty()) {
    double left = uniform() * static_cast<double>(distribution.total_);
    std::size_t i = 0;
    for (; i + 1 < distribution.entries_.size(); ++i) {
      left -= distribution.entries_[i].weight;
      if (left < 0.0) break;
    }
    drawn.push_back(distribution.entries_[i].token);
    distribution = distribution.without(drawn.back());
  }
  return drawn;
}

}  // namespace edgedraft
