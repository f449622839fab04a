#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "server/hints/hint_calibration.h"
#include "server/hints/hint_tree.h"
#include "server/passes/hint_selection.h"
#include "shared/base/clock.h"
#include "shared/forecast/cost_curve.h"
#include "shared/protocol/message.h"
#include "shared/speculative/draft_tree.h"

namespace edgedraft::server {

// Server-driven decoding up to the client's credit: over hints and its own guesses if it has some,
// else one token per pass.
class Run {
 public:
  // The run's text is `tokens`; the last one is the root. Before the prompt is answered it is the
  // prompt's last token.
  Run(const wire::RunTerms& terms, std::span<const std::uint32_t> tokens,
      std::uint32_t vocabulary_count);

  bool brings_rows() const { return terms_.rows; }
  bool in_lockstep() const { return terms_.hold == wire::Hold::lockstep; }
  // True if a lockstep client has not sent the hints for the next pass.
  bool lacks_hints() const { return in_lockstep() && !complete_; }
  // Length up to which it may run.
  std::uint32_t credit() const { return terms_.credit; }

  // `posted` is the arrival time, possibly during a pass.
  void take(const wire::Hints& hints, Instant posted);
  // Tokens the session had chosen before and will choose again.
  void expect(std::span<const std::uint32_t> tokens) {
    hints_.add_path(tokens);
    ranked_.reset();
  }
  // The session has chosen these tokens; `now` is the time at which they are sent to its client.
  void advance(std::span<const std::uint32_t> tokens, Instant now);

  // Replaces the server's guesses below the root. They share a tree with the hints until tokens are
  // chosen.
  void propose(DraftTree guesses) {
    guesses_ = std::move(guesses);
    ranked_.reset();
  }
  // Acceptance probabilities of hints and guesses, best first; valid until either changes. Hints
  // are left out where they would claim more than the run may: their sum is limited, so that wrong
  // hints cost other runs little, whatever their scores are (kClaimMax, kClaimPerToken).
  std::span<const double> probabilities() { return ranked().probabilities; }
  // Tree for the next pass: the `count` best nodes within the credit from `length` tokens on.
  const DraftTree& choose(std::uint32_t count, std::uint32_t length);
  // Like choose(), with all complete hints.
  // Requires  in_lockstep(), !lacks_hints()
  const DraftTree& choose_complete(std::uint32_t length);
  const DraftTree& chosen() const { return chosen_; }
  // Chosen nodes that were hinted, and those only the server proposed.
  std::uint32_t hinted_count() const;
  std::uint32_t guessed_count() const { return chosen_.node_count() - hinted_count(); }
  // Tokens of a path that only the server proposed.
  std::uint32_t guessed_count(std::span<const std::uint32_t> path) const;
  // Last id received when that tree was chosen.
  std::uint32_t hints_seen() const { return hints_seen_; }
  // Records the accepted path of the tree.
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
  // Tokens that hints may claim in vain, first and per chosen token. True claims cancel out, and a
  // pass takes at most 32 levels. A row joins a pass only if its claim is worth its cost, so vain
  // claims of 0.1 tokens per token lengthen passes by a tenth at most.
  static constexpr double kClaimMax = 32.0;
  static constexpr double kClaimPerToken = 0.1;

  bool is_hintless() const { return passes_without_hints_ >= kHintlessPasses; }

  // A node of hints and guesses, with the estimate of each source.
  struct Node {
    std::uint32_t token;
    std::uint32_t parent;  // index + 1; 0 is the root
    std::optional<ScoreSteps> hint{};
    std::optional<ScoreSteps> guess{};
    // At most its parent's.
    double probability;
  };
  // Both as one tree, likeliest first, parents before children.
  struct Ranked {
    std::vector<Node> nodes;
    std::vector<double> probabilities;  // per node
  };
  const Ranked& ranked();
  Ranked rank() const;

  std::uint32_t depth_max(std::uint32_t length) const {
    // The pass adds a token of the target after the deepest node.
    return terms_.credit > length ? terms_.credit - length - 1 : 0;
  }

  wire::RunTerms terms_;
  HintTree hints_;
  std::optional<std::vector<HintNode>> complete_;  // lockstep hints for the next pass
  std::uint32_t vocabulary_count_;
  DraftTree guesses_;
  // Score calibration differs between the device's drafter and the server's.
  HintCalibration calibration_;
  HintCalibration guess_calibration_;
  // Tokens that its hints were expected to gain in passes, beyond those that they gained.
  double overclaimed_ = 0.0;
  // Cached, since it is read several times per pass on the shared compute thread. Reset if hints,
  // guesses or calibration change.
  std::optional<Ranked> ranked_;
  DraftTree chosen_;
  std::vector<Node> chosen_nodes_;  // for rows 1..
  std::uint32_t hints_seen_ = 0;
  std::uint32_t passes_without_hints_ = 0;
  Instant told_;  // time of the last verdict
  std::optional<Instant> emptied_;
  std::optional<Duration> hint_delay_;
  // The last message that added nodes, its nodes' expected gain, and the smoothed gap from the
  // previous message or verdict to such a message.
  std::optional<Instant> last_message_;
  double last_worth_ = 0.0;
  std::optional<Duration> message_gap_;
  RunningMean first_worth_{kMessagesRemembered};
  RunningMean accepted_{kMessagesRemembered};  // per pass with hints
};

}  // namespace edgedraft::server
