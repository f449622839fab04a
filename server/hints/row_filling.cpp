#include "server/hints/row_filling.h"

#include <algorithm>
#include <cstddef>

namespace edgedraft {
namespace {

constexpr double kLongestForTheHintless = 1.03;

struct Candidate {
  double probability;
  std::size_t offer;
  std::size_t place;  // among all candidates
};

// The likeliest `most`, best first. A session's own order is kept: what is taken of it is a prefix,
// so a parent is never left behind.
std::vector<Candidate> ranked(std::span<const HintOffer> offers, std::size_t most) {
  std::vector<Candidate> candidates;
  for (std::size_t i = 0; i < offers.size(); ++i) {
    double least = 1.0;
    for (const double probability : offers[i]) {
      least = std::min(least, probability);
      candidates.push_back({.probability = least, .offer = i, .place = candidates.size()});
    }
  }
  const auto better = [](const Candidate& a, const Candidate& b) {
    return a.probability != b.probability ? a.probability > b.probability : a.place < b.place;
  };
  if (most < candidates.size()) {
    const auto end = candidates.begin() + static_cast<std::ptrdiff_t>(most);
    std::nth_element(candidates.begin(), end, candidates.end(), better);
    candidates.erase(end, candidates.end());
  }
  std::ranges::sort(candidates, better);
  return candidates;
}

}  // namespace

std::vector<std::uint32_t> fill_rows(const PassSoFar& pass, std::span<const HintOffer> offers,
                                     const std::function<double(std::uint32_t rows)>& seconds) {
  std::vector<std::uint32_t> taken(offers.size(), 0);
  const std::vector<Candidate> candidates = ranked(offers, pass.rows_left);
  const double seconds_without = seconds(pass.rows);
  const double longest = seconds_without * kLongestForTheHintless;
  double best_rate = pass.tokens / seconds_without;
  std::size_t best_count = 0;
  double tokens = pass.tokens;
  // The cost goes in steps: what the next row does not bring, those behind it may.
  for (std::size_t count = 1; count <= candidates.size(); ++count) {
    const double time = seconds(pass.rows + static_cast<std::uint32_t>(count));
    if (pass.hold_short && time > longest) break;
    tokens += candidates[count - 1].probability;
    if (tokens / time > best_rate) {
      best_rate = tokens / time;
      best_count = count;
    }
  }
  for (std::size_t i = 0; i < best_count; ++i) ++taken[candidates[i].offer];
  return taken;
}

}  // namespace edgedraft
