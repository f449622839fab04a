#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <vector>

#include "server/proposers/speculation_budget.h"
#include "shared/base/clock.h"

// Which hints of runs a pass takes, and how long runs wait for more: pure functions.
namespace edgedraft {

// Whether runs wait for hints that are on their way instead of making passes for their roots alone:
// fewer passes, and slower answers.
enum class Economy : std::uint8_t {
  as_asked,  // by the client
  on,
  off,
};

// How a run's client has sent hints so far.
struct HintHistory {
  bool asks_economy = false;
  bool was_hinted = false;
  // It sends none, or has stopped: no pass grows for its sake.
  bool is_hintless = false;
  // Time from a verdict that left it without hints to the next hint; nothing until measured.
  std::optional<Duration> delay{};
};

// How long a run without hints waits for some rather than make a pass for its root: as long as an
// exchange takes, and at most a second.
Duration economy_wait(Economy economy, const HintHistory& history);

// The hints that are to come next, if a run's device goes on as it did.
struct ExpectedHints {
  Instant at;     // later than now: when they should be here at the latest
  double tokens;  // that they bring
  double a_pass;  // that a pass with hints brings beside the target's own
};

// A run that takes part in the next pass.
struct RunOffer {
  // How likely its hints and guesses are to be accepted, in the order in which they may be taken: a
  // parent first.
  std::span<const double> probabilities{};
  HintHistory history{};
  std::uint32_t probe_rows = 0;
  bool is_gap = false;  // it has no hints, and a tree of the server's own takes their place
  Instant begun{};      // its step, or its last pause ended
  std::optional<ExpectedHints> next{};
};

// The next pass without its runs.
struct PassTerms {
  std::uint32_t rows = 0;
  double tokens = 0.0;            // that these rows bring
  std::uint32_t prompt_rows = 0;  // kept for prompts; 0: there is none
  std::uint32_t rows_max = 0;
  bool guesses_join = false;  // guesses of the server's own stand beside all hints
  bool knows_costs = true;    // of passes wider than those that were seen
  // The server's own tree for a gap, of no effect if there is none; nothing until its acceptance is
  // known.
  std::optional<SpeculationBudget::Tree> gap_tree{};
};

struct HintSelection {
  // No pass before then: hints are on their way that are worth more than the time.
  std::optional<Instant> held_until{};
  // Hints and guesses that the pass takes, by run; empty if the runs are held.
  std::vector<std::uint32_t> taken{};
};

// Chooses so that the pass brings the most tokens a second: the likeliest of all runs, as far as
// the measured cost of a pass (`seconds_of` its rows) makes them worth their rows. Where a session
// without hints takes part, the pass takes at most 1.03 times as long as without any.
HintSelection select_hints(PassTerms pass, std::span<const RunOffer> runs,
                           const std::function<double(std::uint32_t rows)>& seconds_of,
                           Instant now);

}  // namespace edgedraft
