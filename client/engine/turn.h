#pragma once

#include <algorithm>
#include <optional>

#include "client/generation/generation_options.h"
#include "shared/base/clock.h"
#include "shared/net/send_grid.h"

namespace edgedraft::client {

// True if nothing of the answer is sent.
inline bool stays_here(const GenerationTerms& terms) {
  return terms.is_private && terms.open_count == 0;
}

// Schedule of a conversation's turns.
struct Turn {
  bool busy = false;       // has an order
  bool ordered = false;    // has an order that has not begun
  bool cancelled = false;  // is to end
  Instant asked{};         // time of the order or cancellation
  bool woken = false;      // its link has an event
  Instant woken_at{};      // time of the first such event
  Instant wait_end{};      // latest time to continue
  // It computes private text and sends nothing, so it may continue at any time.
  bool is_private = false;
  Instant last{};  // turn after which nothing was left to do

  // `step` is the last step of conversations on the send grid; empty: there is no grid.
  bool is_due(Instant now, std::optional<Instant> step) const {
    if (step && !is_private && last >= *step) return false;
    const Instant seen = seen_at(now, step);
    if ((ordered || (busy && cancelled)) && asked <= seen) return true;
    // An order that has not begun still has the previous order's wait.
    return busy && !ordered && ((woken && woken_at <= seen) || seen >= wait_end);
  }
  // The `now` of its turn.
  Instant seen_at(Instant now, std::optional<Instant> step) const {
    return step && !is_private ? *step : now;
  }
  // Earliest time at which it may be due if no event arrives.
  Instant next(Instant now, std::optional<Instant> step) const {
    if (!busy && !ordered) return Instant::max();
    if (step && !is_private) return *step + SendGrid::kStep;
    return std::max(now, wait_end);
  }
};

// Time used by the turns of one step. If it exceeds a step, all stepped conversations rest for the
// remainder of the step in which they ended. Others then get turns as well. The rest depends only
// on their own time and reveals nothing about the others.
class SteppedTurns {
 public:
  bool may_go(Instant step) const { return step == step_ || step > rests_in_; }
  // Records a turn's duration in that step.
  void took(Instant step, Duration time) {
    if (step != step_) taken_ = {};
    step_ = step;
    taken_ += time;
    rests_in_ = step_ + taken_ / SendGrid::kStep * SendGrid::kStep;
  }

 private:
  Instant step_ = Instant::min();
  Instant rests_in_ = Instant::min();
  Duration taken_{};
};

// Returns the first due element of `line`, pointers to objects with a `turn`; its end if none is
// due. With steps, conversations whose timing is visible outside go before private ones.
template <class Line>
auto next_due(Line& line, Instant now, std::optional<Instant> step, const SteppedTurns& stepped) {
  const auto find = [&](auto may_go) {
    return std::ranges::find_if(
        line, [&](const auto& one) { return may_go(one->turn) && one->turn.is_due(now, step); });
  };
  if (!step) return find([](const Turn&) { return true; });
  auto due = line.end();
  if (stepped.may_go(*step)) due = find([](const Turn& turn) { return !turn.is_private; });
  return due != line.end() ? due : find([](const Turn& turn) { return turn.is_private; });
}

}  // namespace edgedraft::client
