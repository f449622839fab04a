#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "client/bundle_file.h"
#include "server/model_host.h"
#include "server/pass_loop.h"
#include "server/speculation/speculation.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft::bench {

// A server and many devices in simulated time: passes and drafting take as long as they really take
// here, but each device has a machine of its own, and nothing else runs while one is measured.
struct ServingSetup {
  ModelHost& host;
  const BundleFile* bundle;  // null: plain decoding, which the server streams
  Tap* tap;                  // of the bundle; may be null
  // Where devices draft; one at a time runs.
  Backend& device_backend;
  std::optional<TreeShape> tree;
  // Whether devices keep to the row budget that verdicts tell, and stream where that is faster.
  bool adapts = true;
  // Time is what the processor spent instead of what passed: right on a busy machine, for backends
  // of one thread.
  bool processor_time = false;
  // Drafts on the server for devices that stream; may be null.
  Speculation* speculation = nullptr;
  std::uint32_t clients;
  Duration round_trip;
  Duration warm_up;
  Duration measured;
  std::uint32_t tokens_max;  // of an answer
  std::span<const std::vector<std::uint32_t>> prompts;
};

struct ServingResult {
  std::uint64_t tokens = 0;    // that devices got in the measured time
  std::uint64_t streamed = 0;  // of these, in streams
  std::uint64_t verdicts = 0;  // that devices got, prompts' included
  std::uint64_t passes = 0;
  std::uint64_t rows = 0;
  double seconds = 0.0;
  double busy_seconds = 0.0;                // of the server
  std::vector<double> first_token_seconds;  // of each answer that began in the measured time
  std::vector<double> gap_seconds;          // between what a device got and what it got before it
};

// Now, as of such a clock.
Instant work_clock(bool processor_time);

// Every device asks one prompt after another until the time is over.
Result<ServingResult> simulate_serving(const ServingSetup& setup);

}  // namespace edgedraft::bench
