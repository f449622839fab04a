#include "server/row_budget.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace edgedraft {
namespace {

// A pass's and a delivery's weight has halved after some 140 further ones, a draft's and an
// absence's after 35.
constexpr double kPassMemory = 0.995;
constexpr double kDeliveryMemory = 0.995;
constexpr double kDraftMemory = 0.98;

std::size_t size_of(std::uint32_t rows) {
  return static_cast<std::size_t>(std::bit_width(std::max(rows, 1u) - 1));
}

constexpr std::uint32_t rows_of(std::size_t size) {
  return 1u << size;
}

}  // namespace

RowBudget::RowBudget(std::uint32_t pass_rows_max)
    : pass_rows_max_(pass_rows_max), passes_(kPassMemory), deliveries_(kDeliveryMemory) {}

void RowBudget::observe_pass(std::uint32_t rows, Duration time) {
  passes_.add(rows, std::chrono::duration<double>(time).count());
}

void RowBudget::observe_delivery(std::uint32_t tokens, Duration time) {
  deliveries_.add(tokens, std::chrono::duration<double>(time).count());
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
  return std::ceil(rows / pass_rows_max_) * cost.fixed + cost.each * rows;
}

void RowBudget::Fit::add(double count, double seconds) {
  for (double* sum : {&weight_, &count_, &count_squared_, &seconds_, &count_seconds_}) {
    *sum *= memory_;
  }
  weight_ += 1.0;
  count_ += count;
  count_squared_ += count * count;
  seconds_ += seconds;
  count_seconds_ += count * seconds;
}

RowBudget::Cost RowBudget::Fit::cost() const {
  if (!known()) return {};
  const double spread = weight_ * count_squared_ - count_ * count_;
  const double mean = seconds_ / weight_;
  // Samples of one width alone tell nothing of another width's cost: then a row costs nothing more.
  if (spread < 1e-6 * weight_ * count_squared_) return {.fixed = mean, .each = 0.0};
  const double each = std::max(0.0, (weight_ * count_seconds_ - count_ * seconds_) / spread);
  return {.fixed = std::max(0.0, mean - each * count_ / weight_), .each = each};
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
  if (!passes_.known() || !any_draft) return pass_rows_max_;
  const Cost pass = passes_.cost();
  const Cost delivery = deliveries_.cost();
  const auto tokens = tokens_by_size();
  const double n = std::max(sessions, 1u);
  std::uint32_t best_rows = 1;
  double best = 0.0;
  for (std::size_t size = 0; size < kSizes && rows_of(size) <= pass_rows_max_; ++size) {
    const double rows = rows_of(size);
    const double delivered = delivery.fixed + delivery.each * tokens[size];
    const double seconds = std::max(pass_seconds(pass, n * rows) + n * delivered,
                                    absence_.value + pass_seconds(pass, rows) + delivered);
    const double rate = n * tokens[size] / seconds;
    if (rate >= best) {
      best = rate;
      best_rows = rows_of(size);
    }
  }
  return best_rows;
}

}  // namespace edgedraft
