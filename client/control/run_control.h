#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "client/control/cost_line.h"
#include "shared/base/clock.h"
#include "shared/forecast/run_model.h"

namespace edgedraft {

// What is known of a server, the way to it and a drafter that works with it. It outlives answers
// and, in a file, programs.
struct RunKnowledge {
  static constexpr std::size_t kRanks = 8;

  CostLine pass;  // of the target, by rows
  CostLine step;  // of drafting, by nodes expanded
  // How often the target's token was the drafter's likeliest, its second, ..., and of how many.
  std::array<double, kRanks> right{};
  double tried = 0.0;
  double round_trip = 0.0;  // seconds; 0: not known
  // What came by what was predicted, for each RunKind; 0: nothing came yet.
  std::array<double, 4> came_by_predicted{};
  std::uint32_t streamed_answers = 0;  // in a row
};

// How a device takes part in a run: whether it drafts ahead at all, how wide, how far, and whether
// the server is to make passes for its root alone meanwhile.
//
// One law. What each way would bring is predicted by the model of both ends (shared/forecast) from
// what was measured of the link, the passes, the steps and the drafter's ranks, and corrected by
// how predictions for that way have come true. The fastest is taken; among ways that are as fast
// but for 3 %, the one with the fewest passes, and drafting has to gain 3 % on a stream. On battery
// paths are drafted only if they are likelier than one in five, and drafting has to gain 15 %.
//
// What drafting brings is learned by drafting alone. So behind so many answers that were streamed
// one is drafted for, whatever is expected of it.
//
// It owns no clock and sees no tokens.
class RunControl {
 public:
  // What is as fast but for this is no slower.
  static constexpr double kAsFast = 0.97;
  // After so many streamed answers in a row the next one is drafted for.
  static constexpr std::uint32_t kStreamedAnswers = 8;

  struct Decision {
    RunKind kind = RunKind::overlap;  // or economy, or stream
    std::uint32_t breadth = 1;
    double floor = 0.02;             // least probability of a path that is drafted
    double tokens_per_second = 0.0;  // predicted; 0: nothing was known
    double correction = 1.0;         // that is in it: how such predictions came true before

    bool drafts() const { return kind != RunKind::stream; }
    bool operator==(const Decision&) const = default;
  };

  explicit RunControl(const RunKnowledge& known) : known_(known) {}

  // A round trip less the server's own time.
  void observe_link(Duration round_trip);
  void observe_pass(std::uint32_t rows, Duration taken);
  void observe_step(std::uint32_t nodes, Duration taken);
  // The target's token was the drafter's `rank`-th likeliest, from 0; `tried` or any larger number:
  // none of so many that were tried. What would have come of others is not known then, so that
  // their shares of the misses stay what they were.
  void observe_rank(std::uint32_t rank, std::uint32_t tried);
  // So many tokens came in that time, behind the first, while this was done.
  void observe_run(const Decision& done, std::uint32_t tokens, Duration taken);
  // An answer has begun.
  void observe_answer(bool drafts);

  // Whether decisions rest on measurements.
  bool knows_enough() const;
  // What to do next, for an answer of about `tokens` tokens, with trees of at most that breadth.
  Decision decide(std::uint32_t breadth_max, std::uint32_t tokens, bool on_battery);
  // Whether the next answer is to be drafted for, to see what that brings by now.
  bool is_to_try() const { return known_.streamed_answers >= kStreamedAnswers; }
  // How: in the way that no server waits for.
  Decision try_drafting(std::uint32_t breadth, std::uint32_t tokens, bool on_battery);
  const std::string& why() const { return why_; }
  const RunKnowledge& known() const { return known_; }

 private:
  std::vector<double> ranks() const;
  // One way of drafting, and what is expected of it.
  Decision drafting(RunKind kind, std::uint32_t breadth, std::uint32_t tokens,
                    bool on_battery) const;
  // Tokens a second.
  double predict(RunKind kind, std::uint32_t breadth, double floor, std::uint32_t tokens) const;
  double correction(RunKind kind) const;

  RunKnowledge known_;
  std::string why_;
};

}  // namespace edgedraft
