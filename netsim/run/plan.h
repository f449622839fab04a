#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "netsim/profile.h"
#include "netsim/run/experiment.h"

namespace edgedraft::netsim {

// One answer, or one per client at once.
struct Trial {
  std::size_t arm;     // index into the experiment's
  std::size_t prompt;  // prompt of the first client; the others take the following ones
  std::uint32_t repetition = 0;
  std::uint32_t clients = 1;
  std::optional<std::uint32_t> offline_after;
  bool warm_up = false;
  std::string id;  // unique in the experiment, and stable across runs
};

// Index of a client's prompt in the experiment.
std::size_t prompt_index(const Experiment& experiment, const Trial& trial, std::uint32_t client);

// Trials that share a link and a server.
struct Stage {
  std::size_t network;
  std::size_t device;
  std::uint64_t seed;
  std::string id;
  std::vector<Trial> trials;  // in run order
};

// Randomized blocks: all arms answer one prompt, in a newly drawn order, before the next prompt. So
// drift over time affects all of them. A function of the experiment only.
std::vector<Stage> plan(const Experiment& experiment, const std::vector<NetworkProfile>& networks);

// Seed for the positions that synthetic drafts get wrong. It differs per prompt, client and
// repetition, so that resampling prompts covers that randomness. It is equal for every arm and
// link, which keeps pairs comparable.
std::uint64_t draft_seed(std::uint64_t seed, std::uint32_t repetition, const std::string& prompt_id,
                         std::uint32_t client);

// Expected duration of a trial; coarse, from the profiles' means and the longest answer.
double expected_seconds(const Experiment& experiment, const NetworkProfile& network,
                        const DeviceProfile& device, const Trial& trial);
// Expected time around a stage's trials: server starts, calibration.
double expected_overhead_seconds(const Experiment& experiment, const NetworkProfile& network);

// Answers that can run side by side undisturbed, since they mostly wait for their pace or are not
// timed. It is 1 if several clients or an unpaced device make the processor part of the
// measurement.
std::uint32_t undisturbed_lanes(const Experiment& experiment, std::size_t device);

// "2 min 10 s"
std::string duration_text(double seconds);

}  // namespace edgedraft::netsim
