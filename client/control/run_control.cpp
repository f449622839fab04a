#include "client/control/run_control.h"

#include <spdlog/fmt/fmt.h>

#include <algorithm>
#include <cmath>

#include "shared/forecast/rank_probabilities.h"

namespace edgedraft::client {
namespace {

constexpr double kRememberedSamples = 60.0;
constexpr double kRowsShare = 0.02;
// Weight of the expected slope, in squared rows.
constexpr double kSlopeWeight = 0.25;
constexpr double kBatteryGain = 1.15;
constexpr double kFloor = 0.02;
constexpr double kBatteryFloor = 0.2;
// Trees may not pay if a pass of so many rows costs so many times as much as one of a single row.
constexpr double kWideRows = 8.0;
constexpr double kCostlyRows = 1.25;
// Observed ranks needed before a forecast uses them.
constexpr double kTriedToKnow = 16.0;
constexpr double kRanksRemembered = 400.0;
// Maximum weight of ranks from earlier prompts at the start of an answer.
constexpr double kRanksInherited = 64.0;
// Assumed rate of the drafter's likeliest token before any was tried, and its weight in tokens.
constexpr double kUsualAcceptance = 0.7;
constexpr double kUsualWeight = 8.0;
// Weight of a forecast, in measured tokens.
constexpr double kForecastWeight = 16.0;
// Window of each rate in tokens. Drafting speed depends on the text, so its window is shorter.
constexpr double kStreamRemembered = 64.0;
constexpr double kDraftingRemembered = 48.0;
constexpr double kDraftingInherited = 16.0;
constexpr double kStreamInherited = 32.0;
// Share of the tokens that may be lost by trying the mode with the lower rate.
constexpr double kLossShare = 0.03;
// Bounds the balance in tokens: the loss that earlier gains can cover, and the time without
// drafting after a loss.
constexpr double kBalanceMax = 16.0;
// An interval this many times as slow as a stream's is reviewed early.
constexpr double kSlow = 1.2;
// Bounds the balance once an interval of drafting was slower than a stream.
constexpr double kBalanceOfLoser = 2.0;
constexpr std::uint32_t kAnswers = 4;  // per forecast
constexpr std::uint32_t kTokensMin = 32;
constexpr std::uint32_t kTokensMax = 64;

std::size_t index(RunKind kind) {
  return static_cast<std::size_t>(kind);
}

// Least rate of drafting, relative to a stream's, that justifies drafting.
double least_gain(bool on_battery) {
  return on_battery ? kBatteryGain : 1.0 / RunControl::kAsFast;
}

// Tokens that an interval loses at `rate` compared to `other`. A full balance covers any loss.
double expected_loss(double rate, double other) {
  return std::clamp(RunControl::kWindow * (other / rate - 1.0), 0.0, kBalanceMax);
}

}  // namespace

CostLine::CostLine(const Sums& sums) {
  const double all[]{sums.weight, sums.rows, sums.seconds, sums.rows_squared, sums.product};
  const bool possible = std::ranges::all_of(
      all, [](double sum) { return std::isfinite(sum) && sum > 0.0 && sum < 1e12; });
  if (!possible) return;
  weight_ = std::min(sums.weight, kRememberedSamples);
  const double share = weight_ / sums.weight;
  rows_ = sums.rows * share;
  seconds_ = sums.seconds * share;
  rows_squared_ = sums.rows_squared * share;
  product_ = sums.product * share;
}

void CostLine::add(double rows, double seconds) {
  const double keep = weight_ < kRememberedSamples ? 1.0 : (kRememberedSamples - 1.0) / weight_;
  weight_ = weight_ * keep + 1.0;
  rows_ = rows_ * keep + rows;
  seconds_ = seconds_ * keep + seconds;
  rows_squared_ = rows_squared_ * keep + rows * rows;
  product_ = product_ * keep + rows * seconds;
}

double CostLine::at(double rows) const {
  const double mean_rows = rows_ / weight_;
  const double mean = seconds_ / weight_;
  const double spread = std::max(0.0, rows_squared_ / weight_ - mean_rows * mean_rows);
  const double common = product_ / weight_ - mean_rows * mean;
  const double slope =
      std::max(0.0, (common + kSlopeWeight * kRowsShare * mean) / (spread + kSlopeWeight));
  // Bounds extrapolation: no cost is below a tenth of the mean.
  return std::max(mean + slope * (rows - mean_rows), 0.1 * mean);
}

void PassCosts::measured(std::span<const PassTime> times) {
  if (std::ranges::equal(times, times_)) return;
  times_.assign(times.begin(), times.end());
  curve_ = {};
  for (const PassTime& pass : times) {
    curve_.anchor(pass.rows, std::chrono::microseconds(pass.microseconds));
  }
}

void PassCosts::add(std::uint32_t rows, double seconds) {
  line_.add(rows, seconds);
  if (curve_.known()) curve_.add(rows, from_seconds(seconds));
}

void TokenRate::limit(double tokens_max) {
  if (tokens <= tokens_max) return;
  seconds *= tokens_max / tokens;
  tokens = tokens_max;
}

void RunControl::observe_link(Duration round_trip) {
  const double sample = std::max(seconds(round_trip), 1e-6);
  known_.round_trip =
      known_.round_trip > 0.0 ? known_.round_trip + 0.5 * (sample - known_.round_trip) : sample;
}

Duration RunControl::round_trip() const {
  return from_seconds(known_.round_trip);
}

void RunControl::observe_pass(std::uint32_t rows, Duration taken) {
  known_.pass.add(rows, std::max(seconds(taken), 1e-6));
}

void RunControl::observe_step(std::uint32_t nodes, Duration taken) {
  known_.step.add(nodes, std::max(seconds(taken), 1e-6));
}

void RunControl::observe_rank(std::uint32_t rank, std::uint32_t tried) {
  const bool missed_all = rank >= tried;
  const std::vector<double> before = missed_all ? ranks() : std::vector<double>();
  if (known_.tried >= kRanksRemembered) {
    const double keep = (kRanksRemembered - 1.0) / known_.tried;
    for (double& right : known_.right) right *= keep;
    known_.tried *= keep;
  }
  known_.tried += 1.0;
  if (!missed_all) {
    if (rank < known_.right.size()) known_.right[rank] += 1.0;
    return;
  }
  double missed = 1.0;
  for (std::size_t i = 0; i < before.size(); ++i) {
    if (i < tried) {
      missed -= before[i];
    } else {
      known_.right[i] += before[i] / missed;
    }
  }
}

void RunControl::observe_run(const Decision& done, std::uint32_t tokens, Duration taken) {
  if (tokens == 0 || taken <= Duration::zero()) return;
  if (done.drafts() && knows_stream()) {
    const double as_stream = seconds(taken) / stream_cost();
    if (as_stream > tokens) known_.balance = std::min(known_.balance, kBalanceOfLoser);
    known_.balance += tokens - as_stream;
  }
  known_.drafted_tokens = done.drafts() ? known_.drafted_tokens + tokens : 0.0;
  known_.balance = std::clamp(known_.balance + kLossShare * tokens, -kBalanceMax, kBalanceMax);
  TokenRate& rate = known_.rates[index(done.kind)];
  rate.tokens += tokens;
  rate.seconds += seconds(taken);
  rate.limit(done.drafts() ? kDraftingRemembered : kStreamRemembered);
}

bool RunControl::is_due(std::uint32_t tokens, Duration taken) const {
  if (tokens >= kWindow) return true;
  return tokens >= kWindowMin && knows_stream() &&
         seconds(taken) >= kSlow * kWindow * stream_cost();
}

void RunControl::begin_answer() {
  known_.rates[index(RunKind::stream)].limit(kStreamInherited);
  for (const RunKind kind : {RunKind::overlap, RunKind::economy}) {
    known_.rates[index(kind)].limit(kDraftingInherited);
  }
  if (known_.tried <= kRanksInherited) return;
  for (double& right : known_.right) right *= kRanksInherited / known_.tried;
  known_.tried = kRanksInherited;
}

bool RunControl::knows_enough() const {
  return known_.pass.known() && known_.step.known() && known_.tried >= kTriedToKnow &&
         known_.round_trip > 0.0;
}

std::vector<double> RunControl::ranks() const {
  std::vector<double> ranks = rank_probabilities(kUsualAcceptance);
  for (std::size_t i = 0; i < ranks.size(); ++i) {
    ranks[i] = (ranks[i] * kUsualWeight + known_.right[i]) / (kUsualWeight + known_.tried);
  }
  return ranks;
}

bool RunControl::knows_stream() const {
  return known_.rates[index(RunKind::stream)].known() || !known_.pass.from_server().empty();
}

double RunControl::stream_cost() const {
  const TokenRate& stream = known_.rates[index(RunKind::stream)];
  if (stream.known()) return stream.cost();
  const std::span<const PassTime> times = known_.pass.from_server();
  return times.empty() ? known_.pass.at(1) : 1e-6 * times.front().microseconds;
}

double RunControl::forecast_cost(RunKind kind, std::uint32_t breadth, double floor,
                                 std::uint32_t tokens) const {
  const auto half = [&](double, std::uint32_t = 0) { return known_.round_trip / 2.0; };
  const RunModel model{.up = half,
                       .down = half,
                       .pass = [&](std::uint32_t rows) { return known_.pass.at(rows); },
                       .step = known_.step.at(breadth),
                       .ranks = ranks(),
                       .shape = {.breadth = breadth},
                       .floor = floor,
                       .prompt_rows = 1};
  return forecast(model, kind, std::clamp(tokens, kTokensMin, kTokensMax), kAnswers, 1).seconds;
}

RunControl::Decision RunControl::drafting(std::uint32_t breadth_max, std::uint32_t tokens,
                                          bool on_battery) const {
  Decision best{.kind = RunKind::overlap,
                .breadth = breadth_max,
                .floor = on_battery ? kBatteryFloor : kFloor};
  double overlap = forecast_cost(RunKind::overlap, breadth_max, best.floor, tokens);
  if (breadth_max > 1) {
    const double narrow = forecast_cost(RunKind::overlap, 1, best.floor, tokens);
    if (narrow < kAsFast * overlap) {
      overlap = narrow;
      best.breadth = 1;
    }
  }
  Decision economic = best;
  economic.breadth = breadth_max;
  if (known_.pass.at(kWideRows) > kCostlyRows * known_.pass.at(1)) {
    const double chain = forecast_cost(RunKind::overlap, 1, kBatteryFloor, tokens);
    if (kAsFast * chain <= overlap) {
      overlap = chain;
      best.breadth = economic.breadth = 1;
      best.floor = economic.floor = kBatteryFloor;
    }
  }
  const double economy = forecast_cost(RunKind::economy, economic.breadth, economic.floor, tokens);
  const auto with_measured = [&](RunKind kind, double expected) {
    const TokenRate& rate = known_.rates[index(kind)];
    return (kForecastWeight * expected + rate.seconds) / (kForecastWeight + rate.tokens);
  };
  const double cost = with_measured(RunKind::overlap, overlap);
  best.tokens_per_second = 1.0 / cost;
  // A disturbance of one drafting mode affects the other as well.
  const double economy_cost = with_measured(RunKind::economy, economy * cost / overlap);
  if (kAsFast * economy_cost <= cost) {
    best = economic;
    best.kind = RunKind::economy;
    best.tokens_per_second = 1.0 / economy_cost;
  }
  return best;
}

RunControl::Decision RunControl::fastest(std::uint32_t breadth_max, std::uint32_t tokens,
                                         bool on_battery) const {
  const Decision best = drafting(breadth_max, tokens, on_battery);
  Decision stream = best;
  stream.kind = RunKind::stream;
  stream.tokens_per_second = 1.0 / stream_cost();
  const double least = least_gain(on_battery) * stream.tokens_per_second;
  return best.tokens_per_second < least ? stream : best;
}

RunControl::Decision RunControl::decide(std::uint32_t breadth_max, std::uint32_t tokens,
                                        bool on_battery) {
  Decision stream{.kind = RunKind::stream,
                  .breadth = breadth_max,
                  .floor = on_battery ? kBatteryFloor : kFloor};
  if (!knows_stream()) {
    why_ = "measuring the server's rate without drafts";
    return stream;
  }
  stream.tokens_per_second = 1.0 / stream_cost();
  Decision draft = stream;
  draft.kind = RunKind::overlap;
  draft.tokens_per_second = 0.0;
  why_ = "drafting has not been measured yet";
  double draft_loss = 0.0;
  double stream_loss = kWindow;
  if (knows_enough()) {
    draft = drafting(breadth_max, tokens, on_battery);
    const double least = least_gain(on_battery) * stream.tokens_per_second;
    draft_loss = expected_loss(draft.tokens_per_second, least);
    stream_loss = expected_loss(least, draft.tokens_per_second);
    why_ = figures(draft, breadth_max, on_battery);
  }
  const bool affords_draft = known_.balance >= draft_loss;
  const bool affords_stream =
      stream_loss > 0.0 && kLossShare * known_.drafted_tokens >= stream_loss;
  stream.may_draft = known_.balance + kLossShare * tokens >= draft_loss;
  return affords_draft && !affords_stream ? draft : stream;
}

std::string RunControl::figures(const Decision& drafting, std::uint32_t breadth,
                                bool on_battery) const {
  const auto origin = [&](RunKind kind) {
    return known_.rates[index(kind)].known() ? "measured" : "expected";
  };
  const std::string of =
      known_.tried > 0.0 ? "of " + std::to_string(std::lround(known_.tried)) : "assumed";
  return fmt::format(
      "tokens/s: {} {:.1f} {}, stream {:.1f} {} (likeliest token right {:.0f} % {}, link "
      "{:.1f} ms, pass {:.1f} ms, step {:.1f} ms, balance {:+.1f} tokens{})",
      drafting.kind == RunKind::economy ? "economy" : "overlap", drafting.tokens_per_second,
      origin(drafting.kind), 1.0 / stream_cost(), origin(RunKind::stream), 100.0 * ranks()[0], of,
      1e3 * known_.round_trip, 1e3 * known_.pass.at(1), 1e3 * known_.step.at(breadth),
      known_.balance, on_battery ? ", on battery" : "");
}

}  // namespace edgedraft::client
