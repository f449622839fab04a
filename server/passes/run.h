#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "server/hints/hint_calibration.h"
#include "server/hints/hint_tree.h"
#include "server/load/running_cost.h"
#include "server/passes/hint_selection.h"
#include "shared/base/clock.h"
#include "shared/protocol/message.h"
#include "shared/speculative/draft_tree.h"

namespace edgedraft {

// The server goes on by itself, as far as its client's credit reaches: over hints and its own
// guesses where it has some, with its own token alone where it has none.
class Run {
 public:
  // The run stands behind `tokens`. The last of them is the root; before a prompt is answered it is
  // the prompt's last.
  Run(const wire::RunTerms& terms, std::span<const std::uint32_t> tokens,
      std::uint32_t vocabulary_count);

  bool brings_rows() const { return terms_.rows; }
  bool in_lockstep() const { return terms_.hold == wire::Hold::lockstep; }
  // Under lockstep: its client has not sent the hints for the next pass.
  bool lacks_hints() const { return in_lockstep() && !complete_; }
  // The length up to which it may go.
  std::uint32_t credit() const { return terms_.credit; }

  // `posted` is when they came, which may have been in the middle of a pass.
  void take(const wire::Hints& hints, Instant posted);
  // What the session had chosen before, and will choose again.
  void expect(std::span<const std::uint32_t> tokens) {
    hints_.add_path(tokens);
    ranked_.reset();
  }
  // The session has chosen these tokens; `now` is when its client is told.
  void advance(std::span<const std::uint32_t> tokens, Instant now);

  // The server's own guesses below the root, in the place of those before: they stand in one tree
  // with the hints, until tokens are chosen.
  void propose(DraftTree guesses) {
    guesses_ = std::move(guesses);
    ranked_.reset();
  }
  // How likely hints and guesses are to be accepted, best first; valid until either changes.
  std::span<const double> probabilities() { return ranked().probabilities; }
  // The tree for the next pass: the best `count` nodes as far as the credit reaches from `length`
  // tokens on.
  const DraftTree& choose(std::uint32_t count, std::uint32_t length);
  // The same of the complete hints, all of them. Requires  in_lockstep(), !lacks_hints()
  const DraftTree& choose_complete(std::uint32_t length);
  const DraftTree& chosen() const { return chosen_; }
  // How many of the chosen nodes were hinted, and how many the server alone proposed.
  std::uint32_t hinted_count() const;
  std::uint32_t guessed_count() const { return chosen_.node_count() - hinted_count(); }
  // How many tokens of a path only the server proposed.
  std::uint32_t guessed_count(std::span<const std::uint32_t> path) const;
  // The last id that had come when that tree was chosen.
  std::uint32_t hints_seen() const { return hints_seen_; }
  // What the pass accepted of the tree.
  void observe(std::span<const std::uint32_t> path);

  const HintCounts& counts() const { return hints_.counts(); }
  bool has_hints() const { return hints_.node_count() > 0; }
  HintHistory history() const {
    return {.asks_economy = terms_.hold == wire::Hold::economy,
            .was_hinted = hints_.last_id() > 0,
            .is_hintless = is_hintless(),
            .delay = hint_delay_};
  }
  std::optional<ExpectedHints> next_hints(Instant now) const;

 private:
  static constexpr std::uint32_t kHintlessPasses = 8;
  static constexpr double kMessagesRemembered = 20.0;

  bool is_hintless() const { return passes_without_hints_ >= kHintlessPasses; }

  // A node of hints and guesses, each with what its source makes of it.
  struct Node {
    std::uint32_t token;
    std::uint32_t parent;  // index + 1; 0 is the root
    std::optional<ScoreSteps> hint{};
    std::optional<ScoreSteps> guess{};
    // At most its parent's.
    double probability;
  };
  // Both as one tree, likeliest first, a parent before its children.
  struct Ranked {
    std::vector<Node> nodes;
    std::vector<double> probabilities;  // of each
  };
  const Ranked& ranked();
  Ranked rank() const;

  std::uint32_t depth_max(std::uint32_t length) const {
    // The pass brings a token of the target's own behind the deepest node.
    return terms_.credit > length ? terms_.credit - length - 1 : 0;
  }

  wire::RunTerms terms_;
  HintTree hints_;
  std::optional<std::vector<HintNode>> complete_;  // under lockstep, for the next pass
  std::uint32_t vocabulary_count_;
  DraftTree guesses_;
  // What scores are worth differs between a device's drafter and the server's.
  HintCalibration calibration_;
  HintCalibration guess_calibration_;
  // Kept, as it is asked for several times a pass on the thread that all sessions share: nothing
  // where hints, guesses or what they are worth have changed since.
  std::optional<Ranked> ranked_;
  DraftTree chosen_;
  std::vector<Node> chosen_nodes_;  // of rows 1..
  std::uint32_t hints_seen_ = 0;
  std::uint32_t passes_without_hints_ = 0;
  Instant told_;  // the last verdict left
  std::optional<Instant> emptied_;
  std::optional<Duration> hint_delay_;
  // The newest message that added to the tree, what its nodes are worth together, and how long
  // after the one before, or after the verdict, such messages come.
  std::optional<Instant> last_message_;
  double last_worth_ = 0.0;
  std::optional<Duration> message_gap_;
  RunningMean first_worth_{kMessagesRemembered};
  RunningMean accepted_{kMessagesRemembered};  // of passes with hints
};

}  // namespace edgedraft
