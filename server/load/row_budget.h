#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>

#include "server/load/running_cost.h"
#include "shared/base/clock.h"
#include "shared/protocol/draft_sizes.h"

namespace edgedraft {

// What drafts of one drafter bring, by their size. Where little was seen of a size it goes by what
// drafters of this kind bring as a rule, scaled by what was seen of other sizes. A mean over
// hundreds of drafts: that many devices draft easy text at the same time must not look like a
// better drafter, and nobody's single draft may show.
class DraftYield {
 public:
  DraftYield();
  // A draft of `rows` rows, root included, brought `tokens` tokens, the target's own included.
  void add(std::uint32_t rows, std::uint32_t tokens);
  // Tokens of a draft of that size, 1 at least.
  double tokens(std::size_t size) const;

 private:
  std::array<RunningMean, kDraftSizes> by_size_{};
  RunningMean share_;  // of the rule, beyond the target's own token
};

// How many rows a draft should have so that all sessions together get the most tokens a second,
// learned from what passes cost, what drafts brought and how long sessions are away in between.
// While the server has time to spare, trees cost nobody anything; as load rises they shrink to
// chains and at last to single tokens, so that speculation never costs throughput.
//
// n sessions send drafts of r rows that bring tau(r) tokens; a pass costs S(x) for x rows, of which
// it takes R at most; behind it each draft's activations cost D(t) for the t positions that became
// valid, one after another; a session needs Z to answer a verdict with the next draft. The sessions
// fall into k groups of n / k, each of which is away while the others' passes run. With
// P = S(n r / k) + n D(tau(r)) / k, a group's pass, all of them get n * tau(r) tokens in
//   min over k >= n r / R of max(k P, Z + P),
// and the r that makes this ratio largest is the budget. S and D are what was measured at the
// start, scaled by what was seen since, Z is a running mean.
class RowBudget {
 public:
  explicit RowBudget(std::uint32_t pass_rows_max) : pass_rows_max_(pass_rows_max) {}

  // A pass of so many rows took so long; once more for those measured before anybody was served.
  void observe_pass(std::uint32_t rows, Duration time) { passes_.add(rows, time); }
  void anchor_pass(std::uint32_t rows, Duration time) { passes_.anchor(rows, time); }
  // A draft of `rows` rows, root included, brought `tokens` tokens, the target's own included.
  // Drafters are numbered by the caller.
  void observe_draft(std::uint32_t drafter, std::uint32_t rows, std::uint32_t tokens);
  // The activations of a draft that brought `tokens` tokens took so long, zero where there are
  // none.
  void observe_delivery(std::uint32_t tokens, Duration time) { deliveries_.add(tokens, time); }
  void anchor_delivery(std::uint32_t tokens, Duration time) { deliveries_.anchor(tokens, time); }
  // A session sent its next draft, of more than a root, so long after it had the verdict. However
  // long that is, it counts as kAbsenceMax at most: everybody's budget goes by it.
  static constexpr Duration kAbsenceMax = std::chrono::seconds(2);
  void observe_absence(Duration time) { absence_.add(seconds(std::min(time, kAbsenceMax))); }

  // Whether it is known what wider passes cost than those that were seen.
  bool knows_passes() const { return passes_.knows_counts(); }
  // What a pass of so many rows takes; 1 until anything is known.
  double pass_seconds(std::uint32_t rows) const {
    return passes_.known() ? passes_.seconds(rows) : 1.0;
  }

  // Rows per draft, root included, while `sessions` sessions draft. At least 1. Until it is known
  // what wider passes cost, a few; without a measurement at the start never many times more than
  // the widest pass so far.
  std::uint32_t rows_for(std::uint32_t sessions) const;

  // What `sessions` sessions are to expect if all of them do the same.
  struct Outlook {
    double stream_seconds;  // of a streamed token: a pass with a row of each
    // By size of their drafts: seconds in the queue and in the pass, and tokens from that drafter.
    std::array<double, kDraftSizes> draft_seconds;
    std::array<double, kDraftSizes> tokens;
  };
  // Nothing until it is known what wider passes cost.
  std::optional<Outlook> outlook(std::uint32_t sessions, std::uint32_t drafter) const;
  // The outlook's stream_seconds; 0 until then.
  double stream_seconds(std::uint32_t sessions) const;
  // Drafts of the best size, of all sessions, by what streams would give them: above 1, drafts
  // serve more tokens a second. 1 until then.
  double drafts_by_streams(std::uint32_t sessions) const;

 private:
  struct Best {
    std::uint32_t rows;
    double tokens_per_second;  // of one session
  };
  Best best_draft(std::uint32_t sessions) const;
  // From a draft to the next one of the same session.
  double cycle_seconds(double sessions, double rows, double tokens) const;

  std::uint32_t pass_rows_max_;
  DraftYield yield_;  // of all drafters
  std::map<std::uint32_t, DraftYield> yield_by_drafter_;
  RunningMean absence_{200.0};  // seconds
  CostCurve passes_;
  CostCurve deliveries_;
};

}  // namespace edgedraft
