#include "tests/bench/rules/drawn_draft.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "shared/forecast/rank_probabilities.h"

namespace edgedraft {
namespace {

// Assumed accuracy of a drafter's likeliest token, for the shape of trees.
constexpr double kAcceptance = 0.6;

}  // namespace

DrawnDraft::DrawnDraft(Options options)
    : options_(std::move(options)), ranks_(rank_probabilities(kAcceptance)) {}

void DrawnDraft::draw(std::span<const std::uint32_t> path, std::vector<DraftGuess>& guesses) {
  if (guesses.size() > kGuessesMax) guesses.resize(kGuessesMax);
  SparseDistribution distribution(guesses, options_.temperature);
  guesses.clear();
  const std::size_t count = std::min<std::size_t>(options_.breadth, ranks_.size());
  for (const std::uint32_t token : distribution.draw(count, options_.uniform)) {
    const double rank = ranks_[guesses.size()];
    guesses.push_back({.token = token, .log_prob = static_cast<float>(std::log(rank))});
  }
  distributions_.insert_or_assign({path.begin(), path.end()}, std::move(distribution));
}

const SparseDistribution& DrawnDraft::distribution(const DraftTree& tree, std::uint32_t row) const {
  std::vector<std::uint32_t> path;
  for (; row != 0; row = tree.parent(row)) path.push_back(tree.token(row));
  std::ranges::reverse(path);
  return distributions_.at(path);
}

}  // namespace edgedraft
