#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <vector>

#include "client/control/cost_line.h"
#include "shared/base/clock.h"
#include "shared/forecast/run_model.h"

namespace edgedraft {

// Measured time per token of one way to answer. The oldest evidence fades.
struct TokenRate {
  double tokens = 0.0;
  double seconds = 0.0;

  bool known() const { return tokens > 0.0; }
  double cost() const { return seconds / tokens; }
  // Scales the evidence down to at most so many tokens.
  void limit(double tokens_max);

  bool operator==(const TokenRate&) const = default;
};

// Measurements of a server, the link to it and a drafter. They outlive answers and, in a file,
// programs.
struct RunKnowledge {
  static constexpr std::size_t kRanks = 8;

  CostLine pass;  // of the target, by rows
  CostLine step;  // of drafting, by nodes expanded
  // How often the target's token was the drafter's likeliest, its second, ..., and of how many.
  std::array<double, kRanks> right{};
  double tried = 0.0;
  double round_trip = 0.0;           // seconds; 0: not known
  std::array<TokenRate, 4> rates{};  // by RunKind
  // Gains of drafting less its losses, in tokens of a stream, and what it may lose.
  double balance = 0.0;
  double drafted_tokens = 0.0;  // since a stream was measured
};

// Decides how a device takes part in a run: whether it drafts ahead, how wide, how far, and whether
// the server waits for hints.
//
// Law: take the fastest way, but never lose more by drafting than its balance covers.
// - The rate of a way is what it measured. For drafting, a forecast (shared/forecast) from link,
//   passes, steps and ranks counts like 16 more tokens, which lets it follow a new prompt.
// - A stream costs nothing compared to plain decoding. So it is measured first. It is measured
// again
//   when 3 % of the tokens drafted since cover what a streamed stretch loses.
// - Every token adds 3 % of a token to the balance. Drafting adds what it gains and takes what it
//   loses against the stream's measured rate. A stretch of drafting begins if the balance covers
//   its expected loss. So a way that is expected to win is tried at once, one that is nearly as
//   fast often, and a slow one rarely.
// Drafting has to gain 3 % on a stream, on battery 15 %. Economy is preferred if it costs less than
// 3 %. On battery only paths likelier than one in five are drafted.
//
// It owns no clock and sees no tokens.
class RunControl {
 public:
  // Ways whose rates differ by less than 3 % count as equal.
  static constexpr double kAsFast = 0.97;
  // Tokens until a decision is reviewed. It bounds what an attempt at drafting can cost.
  static constexpr std::uint32_t kStretch = 16;
  // Fewer tokens are no measurement of a rate.
  static constexpr std::uint32_t kStretchMin = 8;

  struct Decision {
    RunKind kind = RunKind::overlap;  // or economy, or stream
    std::uint32_t breadth = 1;
    double floor = 0.02;             // least probability of a path that is drafted
    double tokens_per_second = 0.0;  // expected; 0: nothing is known
    bool may_draft = true;           // now, or later in the same answer

    bool drafts() const { return kind != RunKind::stream; }
    bool operator==(const Decision&) const = default;
  };

  explicit RunControl(const RunKnowledge& known) : known_(known) {}

  // A round trip less the server's own time.
  void observe_link(Duration round_trip);
  void observe_pass(std::uint32_t rows, Duration taken);
  void observe_step(std::uint32_t nodes, Duration taken);
  // The target's token was the drafter's `rank`-th likeliest, from 0; `tried` or any larger number:
  // none of the `tried` first. Ranks that were not tried keep their shares of the misses.
  void observe_rank(std::uint32_t rank, std::uint32_t tried);
  // The run produced `tokens` tokens in `taken`, after its first, under this decision.
  void observe_run(const Decision& done, std::uint32_t tokens, Duration taken);
  // True if a stretch has lasted long enough to be observed, or is slow enough to be left.
  bool is_due(std::uint32_t tokens, Duration taken) const;
  // A new answer: evidence of other prompts counts less.
  void begin_answer();

  // True if forecasts of drafting rest on measurements.
  bool knows_enough() const;
  // The fastest way for an answer of about `tokens` tokens and trees up to that breadth.
  Decision fastest(std::uint32_t breadth_max, std::uint32_t tokens, bool on_battery) const;
  // The way to take next, as the law above says.
  Decision decide(std::uint32_t breadth_max, std::uint32_t tokens, bool on_battery);
  const std::string& why() const { return why_; }
  const RunKnowledge& known() const { return known_; }
  Duration round_trip() const;

 private:
  std::vector<double> ranks() const;
  // Forecast seconds per token.
  double forecast_cost(RunKind kind, std::uint32_t breadth, double floor,
                       std::uint32_t tokens) const;
  double stream_cost() const;
  // The fastest way to draft. Requires  knows_enough()
  Decision drafting(std::uint32_t breadth_max, std::uint32_t tokens, bool on_battery) const;
  std::string figures(const Decision& drafting, std::uint32_t breadth, bool on_battery) const;

  RunKnowledge known_;
  std::string why_;
};

}  // namespace edgedraft
