#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "shared/base/clock.h"
#include "shared/forecast/cost_curve.h"
#include "shared/forecast/run_model.h"
#include "shared/types/pass_time.h"

namespace edgedraft::client {

// Cost as a straight line over row count, fitted with more weight on recent measurements. While all
// measurements have the same row count, each further row is assumed to add 2 % of their cost.
class CostLine {
 public:
  void add(double rows, double seconds);
  bool known() const { return weight_ > 0.0; }
  // Requires  known()
  double at(double rows) const;

  // The fit's state, for saving: weight, and sums of rows, seconds, rows^2, rows x seconds.
  struct Sums {
    double weight = 0.0;
    double rows = 0.0;
    double seconds = 0.0;
    double rows_squared = 0.0;
    double product = 0.0;
  };
  Sums sums() const { return {weight_, rows_, seconds_, rows_squared_, product_}; }
  // Ignores sums that no measurement could have produced.
  explicit CostLine(const Sums& sums);
  CostLine() = default;

 private:
  double weight_ = 0.0;
  double rows_ = 0.0;
  double seconds_ = 0.0;
  double rows_squared_ = 0.0;
  double product_ = 0.0;
};

// Cost of a target pass by its rows: the server's measurements, corrected by later passes. If the
// server sent none, a line through later passes.
class PassCosts {
 public:
  PassCosts() = default;
  explicit PassCosts(const CostLine& line) : line_(line) {}

  // Corrections of equal measurements are kept. Requires  fewest rows first
  void measured(std::span<const PassTime> times);
  void add(std::uint32_t rows, double seconds);
  bool known() const { return curve_.known() || line_.known(); }
  // Measured by the server, uncorrected: passes beside drafts say nothing of passes without them.
  std::span<const PassTime> from_server() const { return times_; }
  // Requires  known()
  double at(double rows) const { return curve_.known() ? curve_.seconds(rows) : line_.at(rows); }
  const CostLine& line() const { return line_; }

 private:
  std::vector<PassTime> times_;
  CostCurve curve_;
  CostLine line_;
};

// Measured time per token of one way to answer. The oldest evidence fades.
struct TokenRate {
  double tokens = 0.0;
  double seconds = 0.0;

  bool known() const { return tokens > 0.0; }
  double cost() const { return seconds / tokens; }
  // Scales the evidence down to at most `tokens_max` tokens.
  void limit(double tokens_max);

  bool operator==(const TokenRate&) const = default;
};

// Measurements of a server, its link and a drafter. They are kept across answers and, in a file,
// across program runs.
struct RunKnowledge {
  static constexpr std::size_t kRanks = 8;

  PassCosts pass;
  CostLine step;  // drafting step, by nodes expanded
  // Count of target tokens by their rank in the drafter's proposals, and the total.
  std::array<double, kRanks> right{};
  double tried = 0.0;
  double round_trip = 0.0;           // seconds; 0: unknown
  std::array<TokenRate, 4> rates{};  // by RunKind
  // Tokens gained by drafting less tokens lost, measured against a stream; bounds further losses.
  double balance = 0.0;
  double drafted_tokens = 0.0;  // since a stream was measured
};

// Decides how a device takes part in a run: whether it drafts ahead, how wide, how far, and whether
// the server waits for hints.
//
// It takes the fastest mode, but never loses more by drafting than its balance covers:
// - A mode's rate is its measured rate. For drafting, a forecast (shared/forecast) from link,
//   passes, steps and ranks counts like 16 more tokens, so that the rate follows a new prompt.
// - Until a stream is measured, its rate is that of passes as the server measured them. If the
//   server sent none, a stream is measured first: it costs nothing compared to plain decoding. It
//   is measured again when 3 % of the tokens drafted since then cover the expected loss of a
//   streamed interval.
// - Every token adds 3 % of a token to the balance. Drafting adds its gain over the stream's rate,
//   or subtracts its loss. An interval of drafting begins if the balance covers its expected loss.
//   A mode expected to win is thus tried at once, a nearly equal one often, and a slow one rarely.
//
// Drafting has to gain 3 % over a stream, or 15 % on battery. Economy is preferred if it costs less
// than 3 %. On battery only paths with a probability above 1 in 5 are drafted. So they are, as
// chains, if wide passes cost the server much (experts) and trees gain less than 3 %.
//
// It has no clock and does not read tokens.
class RunControl {
 public:
  // Modes whose rates differ by less than 3 % count as equal.
  static constexpr double kAsFast = 0.97;
  // Tokens between reviews of a decision. Bounds the cost of one attempt at drafting.
  static constexpr std::uint32_t kWindow = 16;
  // Fewest tokens that count as a measurement of a rate.
  static constexpr std::uint32_t kWindowMin = 8;

  struct Decision {
    RunKind kind = RunKind::overlap;  // or economy, or stream
    std::uint32_t breadth = 1;
    double floor = 0.02;             // least probability of a drafted path
    double tokens_per_second = 0.0;  // expected; 0: unknown
    bool may_draft = true;           // now, or later in the same answer

    bool drafts() const { return kind != RunKind::stream; }
    bool operator==(const Decision&) const = default;
  };

  explicit RunControl(const RunKnowledge& known) : known_(known) {}

  // Records a round trip without the server's own time.
  void observe_link(Duration round_trip);
  // Pass times that the server measured before it served; fewest rows first.
  void set_pass_times(std::span<const PassTime> times) { known_.pass.measured(times); }
  void observe_pass(std::uint32_t rows, Duration taken);
  void observe_step(std::uint32_t nodes, Duration taken);
  // The target's token was the drafter's `rank`-th likeliest, from 0; `tried` or more: none of the
  // first `tried` matched. Untried ranks keep their shares of the misses.
  void observe_rank(std::uint32_t rank, std::uint32_t tried);
  // Records that the run under this decision produced `tokens` tokens in `taken`, after its first.
  void observe_run(const Decision& done, std::uint32_t tokens, Duration taken);
  // True if the interval is long enough to be observed, or slow enough to be abandoned.
  bool is_due(std::uint32_t tokens, Duration taken) const;
  // Begins an answer: evidence from other prompts loses weight.
  void begin_answer();

  // True if forecasts of drafting are based on measurements.
  bool knows_enough() const;
  // The fastest mode for an answer of about `tokens` tokens and trees up to `breadth_max`.
  Decision fastest(std::uint32_t breadth_max, std::uint32_t tokens, bool on_battery) const;
  // The mode to take next, within the balance described above.
  Decision decide(std::uint32_t breadth_max, std::uint32_t tokens, bool on_battery);
  const std::string& why() const { return why_; }
  const RunKnowledge& known() const { return known_; }
  Duration round_trip() const;

 private:
  std::vector<double> ranks() const;
  // Forecast seconds per token.
  double forecast_cost(RunKind kind, std::uint32_t breadth, double floor,
                       std::uint32_t tokens) const;
  bool knows_stream() const;
  // Without that, the cost of a pass beside drafts. Requires  knows_stream(), or a known pass
  double stream_cost() const;
  // The fastest mode of drafting. Requires  knows_enough()
  Decision drafting(std::uint32_t breadth_max, std::uint32_t tokens, bool on_battery) const;
  std::string figures(const Decision& drafting, std::uint32_t breadth, bool on_battery) const;

  RunKnowledge known_;
  std::string why_;
};

}  // namespace edgedraft::client
