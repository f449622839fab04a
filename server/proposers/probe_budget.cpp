#include "server/proposers/probe_budget.h"

#include <algorithm>
#include <cmath>

namespace edgedraft::server {
namespace {

// Prior gain of probes in tokens per pass, and its weight in passes.
constexpr double kExpected = 1.0;
constexpr double kExpectedWeight = 32.0;
// Upper bound on a pass's gain by guesses, above what the present methods reach.
constexpr double kMost = 4.0;
// If probes do not pay, the last kTryFor of each kTryPeriod steps retry them, long enough for a
// method to learn.
constexpr std::uint32_t kTryPeriod = 512;
constexpr std::uint32_t kTryFor = 48;
constexpr double kTriedProbesShare = 0.02;
// Until costs of wider passes are known, this many passes with probes and as many without.
constexpr std::uint32_t kLearnCostsFor = 4;

}  // namespace

void ProbeBudget::observe(const Outcome& outcome) {
  base_.add(outcome.tokens - outcome.guessed);
  Way& way = outcome.probe_rows > 0 ? with_ : without_;
  way.rows.add(outcome.rows);
  way.guessed.add(outcome.guessed);
}

double ProbeBudget::round_seconds(const Load& load, double rows) {
  const double all = std::max(load.sessions, 1u) * rows;
  const double passes = std::max(1.0, std::ceil(all / load.pass_rows_max));
  return passes * pass_seconds(load.costs, static_cast<std::uint32_t>(std::ceil(all / passes)));
}

double ProbeBudget::tokens(const Way& way, double expected) const {
  const double base = base_.known() ? base_.value() : 1.0;
  const double seen = way.guessed.weight();
  return base +
         (kExpectedWeight * expected + seen * way.guessed.value()) / (kExpectedWeight + seen);
}

double ProbeBudget::rows(const Way& way) const {
  return way.rows.known() ? way.rows.value() : 1.0;
}

std::uint32_t ProbeBudget::next_rows(const Load& load) {
  if (rows_max_ == 0) return 0;
  ++step_;
  if (!load.costs.knows_counts()) return step_ / kLearnCostsFor % 2 == 0 ? rows_max_ : 0;
  const double plain_seconds = round_seconds(load, rows(without_));
  const double probing_seconds = round_seconds(load, rows(with_) + rows_max_);
  const double plain_rate = tokens(without_, 0.0) / plain_seconds;
  const auto pays = [&](double tokens) { return tokens / probing_seconds > plain_rate; };
  spent_ += plain_seconds;
  if (pays(tokens(with_, kExpected))) return rows_max_;
  const double extra = std::max(0.0, probing_seconds - plain_seconds);
  const bool turn = step_ % kTryPeriod >= kTryPeriod - kTryFor;
  const double base = base_.known() ? base_.value() : 1.0;
  if (!turn || !pays(base + kMost) || tried_ + extra > kTriedProbesShare * spent_) return 0;
  tried_ += extra;
  return rows_max_;
}

}  // namespace edgedraft::server
