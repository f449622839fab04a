#pragma once

#include <cstdint>

#include "server/load/row_budget.h"
#include "server/load/running_cost.h"
#include "shared/base/clock.h"
#include "shared/protocol/message.h"

namespace edgedraft {

// What clients are told to expect under the present load: how large drafts may be, what drafts and
// streams take, and whether all clients together would get more from streams.
//
// Threads   one
class LoadForecast {
 public:
  struct Options {
    std::uint32_t pass_rows_max;
    // Rows per draft, root included, that clients are told; 0: what gives all of them together the
    // most tokens per second.
    std::uint32_t row_budget = 0;
    bool drafts_for_streams = false;  // streams bring more than a token per pass
  };
  explicit LoadForecast(const Options& options);

  // What passes and deliveries took, drafts brought and sessions were away.
  RowBudget& seen() { return budget_; }
  const RowBudget& seen() const { return budget_; }
  // A stream that the server drafts for, or a run that took no hints, took so long for each of its
  // tokens.
  void observe_streamed(double seconds_per_token) { streamed_.add(seconds_per_token); }

  // How many sessions are at work now.
  void set_sessions(std::uint32_t sessions);

  std::uint32_t row_budget() const { return row_budget_; }
  // The part of a verdict that tells of the load. Outlooks are told with verdicts on prompts alone,
  // and clients that stream measure what they get.
  enum class Answer : std::uint8_t { prompt, draft, stream };
  void tell(Answer to, std::uint32_t drafter, wire::Verdict& verdict) const;

 private:
  Options options_;
  RowBudget budget_;
  RunningMean streamed_;
  std::uint32_t sessions_ = 1;
  std::uint32_t row_budget_;
  bool prefers_streams_ = false;
};

}  // namespace edgedraft
