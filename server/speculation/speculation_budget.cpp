#include "server/speculation/speculation_budget.h"

#include <algorithm>
#include <bit>

namespace edgedraft {
namespace {

constexpr double kPassMemory = 0.995;
constexpr double kTreeMemory = 0.98;
// Steps between two that try what is not thought best.
constexpr std::uint32_t kTryEvery = 64;
// Of the time for trees where there should be none.
constexpr double kTryShare = 0.02;
// Full trees before anything is concluded from them.
constexpr std::uint32_t kFirstTrees = 8;

std::size_t size_of(std::uint32_t rows) {
  return static_cast<std::size_t>(std::bit_width(std::max(rows, 1u) - 1));
}

}  // namespace

void SpeculationBudget::Mean::add(double sample) {
  value = known ? kTreeMemory * value + (1.0 - kTreeMemory) * sample : sample;
  known = true;
}

void SpeculationBudget::observe_pass(std::uint32_t rows, Duration time) {
  const double n = rows;
  const double s = seconds(time);
  for (double* sum : {&weight_, &rows_, &rows_squared_, &seconds_, &rows_seconds_}) {
    *sum *= kPassMemory;
  }
  spent_ += s;
  weight_ += 1.0;
  rows_ += n;
  rows_squared_ += n * n;
  seconds_ += s;
  rows_seconds_ += n * s;
}

void SpeculationBudget::observe_drafting(std::uint32_t rows, Duration time) {
  drafting_[std::min(size_of(rows), kSizes - 1)].add(seconds(time));
  spent_ += seconds(time);
  if (trying_) tried_ += seconds(time);
  trying_ = false;
}

void SpeculationBudget::observe_draft(std::uint32_t rows, std::uint32_t tokens) {
  tokens_[std::min(size_of(rows), kSizes - 1)].add(tokens);
}

SpeculationBudget::Cost SpeculationBudget::cost() const {
  const double mean = seconds_ / weight_;
  const double spread = weight_ * rows_squared_ - rows_ * rows_;
  // Passes of one width alone tell nothing of another width's cost: then a row costs nothing more.
  if (spread < 1e-6 * weight_ * rows_squared_) return {.a = mean, .b = 0.0};
  const double b = std::max(0.0, (weight_ * rows_seconds_ - rows_ * seconds_) / spread);
  return {.a = std::max(0.0, mean - b * rows_ / weight_), .b = b};
}

std::uint32_t SpeculationBudget::best_rows(std::uint32_t sessions) const {
  if (weight_ == 0.0) return rows_max_;
  const Cost c = cost();
  const double n = std::max(sessions, 1u);
  std::uint32_t best = 1;
  double best_rate = n / (c.a + c.b * n);
  const std::size_t largest = size_of(rows_max_);
  for (std::size_t size = 1; size <= largest; ++size) {
    // A size that was never tried is judged by the next larger one, until it is: as long to draft,
    // and the likelier half of the nodes brings more than half of the tokens.
    const std::size_t known = tokens_[size].known ? size : std::min(size + 1, largest);
    if (!tokens_[known].known || !drafting_[known].known) continue;
    const double tokens =
        known == size ? tokens_[size].value : 1.0 + 0.6 * (tokens_[known].value - 1.0);
    const double rows = std::min<double>(rows_max_, 1u << size);
    const double rate = n * tokens / (c.a + c.b * n * rows + n * drafting_[known].value);
    if (rate > best_rate) {
      best_rate = rate;
      best = static_cast<std::uint32_t>(rows);
    }
  }
  return best;
}

std::uint32_t SpeculationBudget::next_rows(std::uint32_t sessions) {
  ++step_;
  trying_ = false;
  if (step_ <= kFirstTrees) return rows_max_;
  const std::uint32_t best = best_rows(sessions);
  if (step_ % kTryEvery != 0) return best;
  // In turns something smaller and something larger.
  if (best == 1) {
    trying_ = tried_ <= kTryShare * spent_;
    return trying_ ? std::min(rows_max_, 1u << (1 + step_ / kTryEvery % size_of(rows_max_))) : 1;
  }
  return step_ / kTryEvery % 2 == 0 ? 1 : std::min(rows_max_, 2 * best);
}

}  // namespace edgedraft
