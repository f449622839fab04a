#include "tests/bench/draws.h"

#include <cstddef>
#include <utility>

#include "shared/base/random.h"

namespace edgedraft::bench {

void shuffle_prompts(std::vector<netsim::Prompt>& prompts) {
  Random random(1);
  for (std::size_t i = prompts.size(); i > 1; --i) {
    std::swap(prompts[i - 1], prompts[random.below(i)]);
  }
}

std::uint64_t way_seed(std::uint64_t seed, std::uint64_t device, WayTo to) {
  // Complemented, because drafters' errors use the mixed seed itself.
  return mix64(mix64(~seed) + 2 * device + (to == WayTo::device ? 1 : 0));
}

}  // namespace edgedraft::bench
