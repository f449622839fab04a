#include "server/row_budget.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace edgedraft {
namespace {

// A pass's weight has halved after some 140 further ones, a draft's and an absence's after 35.
constexpr double kPassMemory = 0.995;
constexpr double kDraftMemory = 0.98;

std::size_t size_of(std::uint32_t rows) {
  return static_cast<std::size_t>(std::bit_width(std::max(rows, 1u) - 1));
}

constexpr std::uint32_t rows_of(std::size_t size) {
  return 1u << size;
}

}  // namespace

void RowBudget::observe_pass(std::uint32_t rows, Duration time) {
  const double seconds = std::chrono::duration<double>(time).count();
  const double n = rows;
  for (double* sum : {&weight_, &rows_, &rows_squared_, &seconds_, &rows_seconds_}) {
    *sum *= kPassMemory;
  }
  weight_ += 1.0;
  rows_ += n;
  rows_squared_ += n * n;
  seconds_ += seconds;
  rows_seconds_ += n * seconds;
}

void RowBudget::observe_draft(std::uint32_t rows, std::uint32_t tokens) {
  tokens_[std::min(size_of(rows), kSizes - 1)].add(tokens);
}

void RowBudget::observe_absence(Duration time) {
  absence_.add(std::chrono::duration<double>(time).count());
}

void RowBudget::Mean::add(double sample) {
  value = known ? kDraftMemory * value + (1.0 - kDraftMemory) * sample : sample;
  known = true;
}

double RowBudget::pass_seconds(const Cost& cost, double rows) const {
  return std::ceil(rows / pass_rows_max_) * cost.a + cost.b * rows;
}

RowBudget::Cost RowBudget::cost() const {
  const double spread = weight_ * rows_squared_ - rows_ * rows_;
  const double mean = seconds_ / weight_;
  // Passes of one width alone tell nothing of another width's cost: then a row costs nothing more.
  if (spread < 1e-6 * weight_ * rows_squared_) return {.a = mean, .b = 0.0};
  const double b = std::max(0.0, (weight_ * rows_seconds_ - rows_ * seconds_) / spread);
  return {.a = std::max(0.0, mean - b * rows_ / weight_), .b = b};
}

std::array<double, RowBudget::kSizes> RowBudget::tokens_by_size() const {
  std::array<double, kSizes> tokens{};
  tokens[0] = 1.0;
  std::size_t last_known = 0;
  for (std::size_t size = 1; size < kSizes; ++size) {
    if (!tokens_[size].known) continue;
    tokens[size] = std::max(tokens_[size].value, 1.0);
    for (std::size_t between = last_known + 1; between < size; ++between) {
      const double share =
          static_cast<double>(between - last_known) / static_cast<double>(size - last_known);
      tokens[between] = tokens[last_known] + share * (tokens[size] - tokens[last_known]);
    }
    last_known = size;
  }
  for (std::size_t size = last_known + 1; size < kSizes; ++size) tokens[size] = tokens[last_known];
  return tokens;
}

std::uint32_t RowBudget::rows_for(std::uint32_t sessions) const {
  const bool any_draft =
      std::any_of(tokens_.begin() + 1, tokens_.end(), [](const Mean& m) { return m.known; });
  if (weight_ == 0.0 || !any_draft) return pass_rows_max_;
  const Cost c = cost();
  const auto tokens = tokens_by_size();
  const double n = std::max(sessions, 1u);
  std::uint32_t best_rows = 1;
  double best = 0.0;
  for (std::size_t size = 0; size < kSizes && rows_of(size) <= pass_rows_max_; ++size) {
    const double rows = rows_of(size);
    const double seconds =
        std::max(pass_seconds(c, n * rows), absence_.value + pass_seconds(c, rows));
    const double rate = n * tokens[size] / seconds;
    if (rate >= best) {
      best = rate;
      best_rows = rows_of(size);
    }
  }
  return best_rows;
}

}  // namespace edgedraft
