#pragma once

#include <cstdint>
#include <vector>

#include "netsim/run/experiment.h"

namespace edgedraft::bench {

// Random draws that simulations make beforehand, by seed.

// A fixed order, independent of tasks. Files list prompts task by task, so in file order a faster
// arm would reach other tasks in the same time.
void shuffle_prompts(std::vector<netsim::Prompt>& prompts);

// Seeds of the network events on a device's way to and from the server. Each way has its own seed
// per device and base seed, different from those of drafters' errors.
enum class WayTo : std::uint8_t { server, device };
std::uint64_t way_seed(std::uint64_t seed, std::uint64_t device, WayTo to);

}  // namespace edgedraft::bench
