#pragma once

#include <algorithm>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "client/generation/generation_options.h"
#include "netsim/link/options.h"
#include "server/passes/pass_loop.h"
#include "server/program/model_host.h"
#include "server/proposers/speculation.h"
#include "shared/base/sampling_params.h"
#include "shared/speculative/tree_growth.h"
#include "tests/bench/drafter_arms.h"
#include "tests/bench/trace.h"

namespace edgedraft::bench {

// The time that simulated work takes: what it really takes here, or by a device profile alone.
// One thread at a time.
class WorkClock {
 public:
  // `wall`: what passed, `processor`: what the processor spent (right on a busy machine, for
  // backends of one thread), `paces`: none but what is waited for.
  enum class Counts : std::uint8_t { wall, processor, paces };
  explicit WorkClock(Counts counts) : counts_(counts) {}

  Instant now() const;
  void skip(Duration time) { skipped_ += std::max(time, Duration::zero()); }
  void skip_to(Instant end) { skip(end - now()); }

 private:
  Counts counts_;
  Duration skipped_{};
};

// A server and many devices in simulated time: passes and drafting take as long as they really take
// here, or as a profile says, but each device has a machine of its own, and nothing else runs while
// one is measured.
struct ServingSetup {
  ModelHost& host;
  const DrafterArm* drafter;  // null: plain decoding, a run without hints
  // Where devices draft; one at a time runs.
  Backend& device_backend;
  TreeShape tree;
  WorkClock& clock;
  // Whether the server measures its passes before the first request, as a real one does.
  bool measures_costs = true;
  // Least times by a profile; empty and zero: none.
  std::function<Duration(std::uint32_t rows)> pass_pace{};
  Duration step_pace{};
  // Drafts on the server for runs; may be null.
  Speculation* speculation = nullptr;
  std::uint32_t clients;
  std::uint32_t listeners = 0;  // of these, devices that draft nothing, whatever the others do
  Duration round_trip;
  // A network instead of that round trip; both or none. What it loses comes as TCP brings it.
  const netsim::LinkOptions* up = nullptr;
  const netsim::LinkOptions* down = nullptr;
  std::uint64_t seed = 1;
  // Of devices that draft; nothing: they choose.
  std::optional<Hold> hold = Hold::lockstep;
  SamplingParams sampling{};
  // Activations of a position are padded to so many bytes; 0: they are as they are.
  std::uint32_t padded_row_bytes = 0;
  // Blocks of constant size at that pace; 0: as it comes.
  std::uint16_t pad_tick_ms = 0;
  // What a device does between two answers.
  Duration pause{};
  // Devices that know the answers, as many as prompts, and err on purpose; else the bundle drafts.
  std::optional<double> acceptance{};
  std::span<const std::vector<std::uint32_t>> answers{};
  Duration warm_up;
  Duration measured;
  // Answers that each device asks for at most; 0: as many as it gets in the measured time.
  std::uint32_t answer_count = 0;
  std::uint32_t tokens_max;  // of an answer
  std::span<const std::vector<std::uint32_t>> prompts;
};

struct ServingResult {
  std::uint64_t tokens = 0;    // that devices got in the measured time
  std::uint64_t streamed = 0;  // of these, while the device sent no hints
  std::uint64_t listened = 0;  // of these, that listeners got
  std::uint64_t verdicts = 0;  // that devices got, prompts' included
  std::uint64_t passes = 0;
  std::uint64_t rows = 0;
  double seconds = 0.0;
  double busy_seconds = 0.0;                 // of the server
  std::vector<double> first_token_seconds;   // of each answer that began in the measured time
  std::vector<double> gap_seconds;           // between what a device got and what it got before it
  std::vector<double> answer_seconds;        // of each answer that ended in the measured time
  std::vector<std::uint32_t> answer_tokens;  // and their lengths
  std::uint64_t hints = 0;                   // nodes that devices sent
  std::vector<Trace> traces;                 // of answers that ended in the measured time
};

// Every device asks one prompt after another until the time is over or it has all answers that it
// asks for.
Result<ServingResult> simulate_serving(const ServingSetup& setup);

}  // namespace edgedraft::bench
