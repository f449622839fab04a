#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "netsim/profile.h"
#include "netsim/run/experiment.h"

namespace edgedraft::netsim {

// One answer, or as many at once as there are clients.
struct Trial {
  std::size_t arm;     // index into the experiment's
  std::size_t prompt;  // of the first client; the others take those behind it
  std::uint32_t repetition = 0;
  std::uint32_t clients = 1;
  std::optional<std::uint32_t> offline_after;
  bool warm_up = false;
  std::string id;  // unique in the experiment, and the same in each run of it
};

// The prompt that one of its clients asks: index into the experiment's.
std::size_t prompt_index(const Experiment& experiment, const Trial& trial, std::uint32_t client);

// What shares one link and one server.
struct Stage {
  std::size_t network;
  std::size_t device;
  std::uint64_t seed;
  std::string id;
  std::vector<Trial> trials;  // in the order they run
};

// Arms in random blocks: all arms answer one prompt, in an order drawn anew each time, before the
// next prompt's turn. So what drifts with time falls on all of them. A function of the experiment
// alone.
std::vector<Stage> plan(const Experiment& experiment, const std::vector<NetworkProfile>& networks);

// Says which positions of an answer synthetic drafts get wrong: others for each prompt, client and
// repetition, so that resampling prompts covers that chance as well, and the same for every arm and
// link, which stay comparable in pairs.
std::uint64_t draft_seed(std::uint64_t seed, std::uint32_t repetition, const std::string& prompt_id,
                         std::uint32_t client);

// How long a trial may be expected to take; coarse, from the profiles' means and the longest
// answer.
double expected_seconds(const Experiment& experiment, const NetworkProfile& network,
                        const DeviceProfile& device, const Trial& trial);
// The same for all that has to be done around a stage's trials: servers, calibration.
double expected_overhead_seconds(const Experiment& experiment, const NetworkProfile& network);

// So many answers can run side by side and none is disturbed: they mostly wait for their pace, or
// it is not their time that counts. 1 where several clients or an unpaced device make the processor
// part of what is measured.
std::uint32_t undisturbed_lanes(const Experiment& experiment, std::size_t device);

// "2 min 10 s"
std::string duration_text(double seconds);

}  // namespace edgedraft::netsim
