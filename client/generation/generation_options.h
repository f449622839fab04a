#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/control/run_control.h"
#include "client/generation/offline/offline_writer.h"
#include "client/generation/telemetry/cycle_record.h"
#include "client/generation/telemetry/observer.h"
#include "client/generation/writing_side.h"
#include "shared/base/clock.h"
#include "shared/constraints/constraint_filter.h"
#include "shared/drafting/drafter.h"
#include "shared/protocol/message.h"
#include "shared/protocol/target_link.h"
#include "shared/speculative/tree_growth.h"
#include "shared/types/sampling_params.h"

namespace edgedraft::client {

using wire::Hold;

// Environment of a generation.
struct GenerationParts {
  TargetLink& link;
  Drafter* drafter;                 // null for plain decoding
  OfflineWriter* writer = nullptr;  // writes without the server; null: the drafter does
  GenerationObserver& observer;
  std::function<bool(std::uint32_t)> is_end;
  std::function<Instant()> now;
  std::function<void(const CycleRecord&)> on_cycle{};          // may be empty
  std::function<void(const std::string& what)> on_decision{};  // control decisions; may be empty
  std::function<bool()> on_battery{};                          // empty: never on battery
  // True while turns run on the send grid, where `now` is frozen per step (SendGrid); may be empty.
  std::function<bool()> goes_by_steps{};

  // False on the send grid: durations there depend on private work, so they must not be measured.
  bool is_timed() const { return !goes_by_steps || !goes_by_steps(); }
};

struct GenerationOptions {
  std::optional<TreeShape> tree;  // empty: plain decoding
  std::uint32_t tokens_max;
  std::uint32_t context_count;  // tokens that the drafter can hold; 0: no limit
  SamplingParams sampling;
  Duration deadline;  // silence of the server after which the drafter writes alone
  wire::ResyncPolicy resync;
  // Limit on waiting for the server to check offline text, or to return if the device cannot write.
  // Without it and without a drafter, a lost link ends the answer at once.
  Duration resync_wait;
  // Condition that server passes wait for. Empty: RunControl chooses none, economy, or no drafting.
  std::optional<Hold> hold = Hold::lockstep;
  RunKnowledge known{};  // from earlier answers of that server

  bool in_lockstep() const { return hold == Hold::lockstep; }
};

// Terms of one answer.
struct GenerationTerms {
  std::uint32_t tokens_max;
  SamplingParams sampling{};
  // The drafter writes alone while the server is away. If false, the answer waits for the server
  // until it is cancelled or wait_max is over.
  bool writes_offline = true;
  // If writes_offline is false: wait for the server before the answer ends with the link's error.
  Duration wait_max = Duration::max();
  // Length of an outage after which offline text becomes final without a check.
  Duration keep_after = Duration::max();
  WritingSide route = WritingSide::server;
  // The prompt holds private text. Neither that text nor any token after it is sent, except the
  // first `open_count` tokens, for which the drafter receives the target's activations.
  // Requires  route device
  bool is_private = false;
  std::uint32_t open_count = 0;
  // With WritingSide::automatic: hands over to the server if the geometric mean of the drafter's
  // last token probabilities is below this value.
  double handover_below = 0.5;
  // Text that the answer may repeat, such as one to edit; empty: none. Ignored if is_private, else
  // it holds no private text.
  std::vector<std::uint32_t> prediction{};
  // Constraints of the answer; null: none. Only for the engine's thread from here on.
  std::shared_ptr<ConstraintFilter> filter{};
  // Log probabilities to report per token: its own, then those of the likeliest tokens.
  std::uint8_t logprobs = 0;
};

enum class GenerationEnd : std::uint8_t {
  end_token,   // the model ended it
  tokens_max,  // the requested length
  context,     // the context is full
  stop,        // a stop string is complete
  cancelled,   // by the user
};

}  // namespace edgedraft::client
