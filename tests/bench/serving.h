#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "client/generation/generation_options.h"
#include "netsim/link/options.h"
#include "netsim/pace_profile.h"
#include "server/passes/pass_loop.h"
#include "server/program/model_host.h"
#include "server/proposers/speculation.h"
#include "shared/speculative/tree_growth.h"
#include "shared/types/sampling_params.h"
#include "tests/bench/drafter_arms.h"

namespace edgedraft::bench {
using namespace client;
using namespace server;

// The duration of simulated work: measured here, or taken from a device profile alone. One thread
// at a time.
class WorkClock {
 public:
  // `wall`: elapsed time; `processor`: CPU time (right on a busy machine, for single-threaded
  // backends); `paces`: only the paces of a profile.
  enum class Counts : std::uint8_t { wall, processor, paces };
  explicit WorkClock(Counts counts) : counts_(counts) {}

  Instant now() const;
  void skip(Duration time) { skipped_ += std::max(time, Duration::zero()); }
  void skip_to(Instant end) { skip(end - now()); }

 private:
  Counts counts_;
  Duration skipped_{};
};

// A server and many devices in simulated time. Passes and drafting take as long as measured here,
// or as a profile says, but each device has its own machine, and measurements never overlap.
struct ServingSetup {
  ModelHost& host;
  const DrafterArm* drafter;  // null: plain decoding, a run without hints
  // Shared by all devices, which run one at a time.
  Backend& device_backend;
  TreeShape tree;
  WorkClock& clock;
  // Whether the server measures its passes before the first request, like a real one.
  bool measures_costs = true;
  // Minimum times of passes and of the devices' drafting steps; null: none.
  const PaceProfile* pace = nullptr;
  // Drafts on the server for runs; may be null.
  Speculation* speculation = nullptr;
  std::uint32_t clients;
  std::uint32_t listeners = 0;  // how many of them draft nothing
  Duration round_trip;
  // A network instead of the round trip; both or none. Lost packets arrive as TCP retransmits them.
  const netsim::LinkOptions* up = nullptr;
  const netsim::LinkOptions* down = nullptr;
  std::uint64_t seed = 1;
  // For devices that draft; empty: they choose.
  std::optional<Hold> hold = Hold::lockstep;
  SamplingParams sampling{};
  bool padded_payloads = false;  // activations have the size of the paced model's
  // Acceptance of oracle drafters, one per prompt; empty: the bundle drafts.
  std::optional<double> acceptance{};
  std::span<const std::vector<std::uint32_t>> answers{};
  Duration warm_up;
  Duration measured;
  // Maximum answers per device; 0: as many as fit into the measured time.
  std::uint32_t answer_count = 0;
  std::uint32_t tokens_max;  // per answer
  std::span<const std::vector<std::uint32_t>> prompts;
};

struct ServingResult {
  std::uint64_t tokens = 0;    // received by devices in the measured time
  std::uint64_t streamed = 0;  // those while the device sent no hints
  std::uint64_t listened = 0;  // those that listeners received
  std::uint64_t verdicts = 0;  // received by devices, including prompts'
  std::uint64_t passes = 0;
  std::uint64_t rows = 0;
  double seconds = 0.0;
  double busy_seconds = 0.0;                 // server's busy time
  std::vector<double> first_token_seconds;   // per answer that began in the measured time
  std::vector<double> gap_seconds;           // between consecutive deliveries to a device
  std::vector<double> answer_seconds;        // per answer that ended in the measured time
  std::vector<std::uint32_t> answer_tokens;  // and their lengths
  std::uint64_t hints = 0;                   // nodes sent by devices
  // To and from the server, without TLS, in answers that ended in the measured time.
  std::uint64_t bytes_up = 0;
  std::uint64_t bytes_down = 0;
};

// Every device sends one prompt after another until the time is over or it has all its answers.
Result<ServingResult> simulate_serving(const ServingSetup& setup);

}  // namespace edgedraft::bench
