#include "shared/forecast/rank_probabilities.h"

#include <array>

namespace edgedraft {
namespace {

constexpr std::array<double, 7> kMissesByRank{0.49, 0.15, 0.10, 0.05, 0.04, 0.03, 0.03};

}  // namespace

std::vector<double> rank_probabilities(double acceptance) {
  std::vector<double> ranks{acceptance};
  for (const double share : kMissesByRank) ranks.push_back(share * (1.0 - acceptance));
  return ranks;
}

}  // namespace edgedraft
