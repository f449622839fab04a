#pragma once

#include <cstdint>
#include <vector>

#include "netsim/run/prompt_file.h"

namespace edgedraft::bench {

// What simulations draw beforehand, by seeds.

// An order that is always the same and has nothing to do with tasks: files hold their prompts task
// by task, and where a faster arm gets further in the same time it must not come to other tasks.
void shuffle_prompts(std::vector<netsim::Prompt>& prompts);

// What a device's packets meet on their way to the server and back. No way of a device shares its
// seed with another one, with the same way under another seed, or with a drafter's errors.
enum class WayTo : std::uint8_t { server, device };
std::uint64_t way_seed(std::uint64_t seed, std::uint64_t device, WayTo to);

}  // namespace edgedraft::bench
