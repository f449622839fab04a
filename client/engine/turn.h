#pragma once

#include <algorithm>
#include <optional>

#include "client/generation/generation_options.h"
#include "shared/base/clock.h"
#include "shared/net/send_grid.h"

namespace edgedraft {

// Whether nothing of such an answer is sent.
inline bool stays_here(const AnswerTerms& terms) {
  return terms.is_private && terms.open_count == 0;
}

// When a conversation of an engine has its turn.
struct Turn {
  bool busy = false;       // with an order
  bool ordered = false;    // there is one that it has not begun
  bool cancelled = false;  // it is to end
  Instant asked{};         // when either was asked for
  bool woken = false;      // its link has something to tell
  Instant woken_at{};      // since then
  Instant wait_end{};      // when to go on at the latest
  // It computes what nobody is to learn of, and sends nothing: it goes on whenever it can.
  bool is_private = false;
  Instant last{};  // turn in which there was nothing left to do

  // At a time at which conversations with steps are at `step`, their last turn; nothing: there are
  // none.
  bool is_due(Instant now, std::optional<Instant> step) const {
    if (step && !is_private && last >= *step) return false;
    const Instant seen = seen_at(now, step);
    if ((ordered || (busy && cancelled)) && asked <= seen) return true;
    // What an order that has not begun would wait for is the last one's.
    return busy && !ordered && ((woken && woken_at <= seen) || seen >= wait_end);
  }
  // The time that it goes by.
  Instant seen_at(Instant now, std::optional<Instant> step) const {
    return step && !is_private ? *step : now;
  }
  // When it may be due next, if nothing happens to it.
  Instant next(Instant now, std::optional<Instant> step) const {
    if (!busy && !ordered) return Instant::max();
    if (step && !is_private) return *step + SendGrid::kStep;
    return std::max(now, wait_end);
  }
};

// What turns by steps take together. Where that is more than a step, all of them rest for what is
// left of the step in which they ended, so that the others have turns as well. It goes by their own
// time alone: when they rest says nothing of the others.
class SteppedTurns {
 public:
  bool may_go(Instant step) const { return step == step_ || step > rests_in_; }
  // A turn by that step took so long.
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

// The first of `line`, pointers to what has a `turn`, that is due; its end if none is. With steps,
// conversations whose moments others see go before the private ones.
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

}  // namespace edgedraft
