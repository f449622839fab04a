#pragma once

#include <cstddef>
#include <cstdint>
#include <utility>
#include <vector>

#include "netsim/run/experiment.h"
#include "shared/base/random.h"

namespace edgedraft::bench {

// Random draws that simulations make beforehand, by seed.

// A fixed order, independent of tasks. Files list prompts task by task, so in file order a faster
// arm would reach other tasks in the same time.
inline void shuffle_prompts(std::vector<netsim::Prompt>& prompts) {
  Random random(1);
  for (std::size_t i = prompts.size(); i > 1; --i) {
    std::swap(prompts[i - 1], prompts[random.below(i)]);
  }
}

// Seeds of the network events on a device's way to and from the server. Each way has its own seed
// per device and base seed, different from those of drafters' errors.
enum class WayTo : std::uint8_t { server, device };
inline std::uint64_t way_seed(std::uint64_t seed, std::uint64_t device, WayTo to) {
  // Complemented, because drafters' errors use the mixed seed itself.
  return mix64(mix64(~seed) + 2 * device + (to == WayTo::device ? 1 : 0));
}

}  // namespace edgedraft::bench
