#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "server/proposers/speculation_budget.h"
#include "shared/base/clock.h"

// Selects hints for a pass and how long runs wait for more. Pure functions.
namespace edgedraft::server {

// Economy lets runs wait for hints in flight instead of running a pass for the root alone: fewer
// passes, slower answers.
enum class Economy : std::uint8_t {
  as_asked,  // by the client
  on,
  off,
};

// Hint timing of a run's client.
struct HintHistory {
  bool asks_economy = false;
  bool was_hinted = false;
  // True if it sends no hints, or stopped: passes do not grow for it.
  bool is_hintless = false;
  // Time from a verdict that left no hints to the next hint; empty until measured.
  std::optional<Duration> delay{};
};

// Maximum wait of a run without hints: one exchange, at most a second.
Duration economy_wait(Economy economy, const HintHistory& history);

// Next expected hints, if the device keeps its pace.
struct ExpectedHints {
  Instant at;     // in the future: latest expected arrival
  double tokens;  // that they gain
  double a_pass;  // gained per pass with hints, beyond the target's own token
};

// A run in the next pass.
struct RunOffer {
  // Acceptance probabilities of its hints and guesses in selection order, parents first.
  std::span<const double> probabilities{};
  HintHistory history{};
  std::uint32_t probe_rows = 0;
  bool is_gap = false;  // no hints: a server-drafted tree fills in
  Instant begun{};      // start of the step, or end of its last pause
  std::optional<ExpectedHints> next{};
};

// The next pass without its runs.
struct PassTerms {
  std::uint32_t rows = 0;
  double tokens = 0.0;            // gained by these rows
  std::uint32_t prompt_rows = 0;  // reserved for prompts; 0: there is none
  std::uint32_t rows_max = 0;
  bool guesses_join = false;  // the server adds its own guesses to all hints
  bool knows_costs = true;    // costs of wider passes than those seen can be predicted
  // Server-drafted tree for a run without hints; empty until its acceptance is known, and ignored
  // if no run needs it.
  std::optional<SpeculationBudget::Tree> gap_tree{};
};

struct HintSelection {
  // Earliest start of the pass: hints worth the wait are in flight.
  std::optional<Instant> held_until{};
  // Hints and guesses taken per run; empty if the runs wait.
  std::vector<std::uint32_t> taken{};
};

// Maximizes tokens per second: takes the likeliest nodes of all runs while they outweigh the
// measured cost of their rows (`seconds_of` rows). If a session without hints takes part, the pass
// takes at most 1.03 times its time without any.
HintSelection select_hints(PassTerms pass, std::span<const RunOffer> runs,
                           const std::function<double(std::uint32_t rows)>& seconds_of,
                           Instant now);

}  // namespace edgedraft::server
