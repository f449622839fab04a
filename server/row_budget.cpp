#include "server/row_budget.h"

#include <algorithm>
#include <cmath>

namespace edgedraft {

void RowBudget::observe_pass(std::uint32_t rows, Duration time) {
  passes_.add(rows, time);
}

void RowBudget::observe_delivery(std::uint32_t tokens, Duration time) {
  deliveries_.add(tokens, time);
}

void RowBudget::observe_draft(std::uint32_t rows, std::uint32_t tokens) {
  tokens_[draft_size(rows)].add(tokens);
}

void RowBudget::observe_absence(Duration time) {
  absence_.add(seconds(time));
}

double RowBudget::pass_seconds(const LinearCost& cost, double rows) const {
  return std::ceil(rows / pass_rows_max_) * cost.fixed + cost.each * rows;
}

std::array<double, kDraftSizes> RowBudget::tokens_by_size() const {
  std::array<double, kDraftSizes> tokens{};
  tokens[0] = 1.0;
  std::size_t last_known = 0;
  for (std::size_t size = 1; size < kDraftSizes; ++size) {
    if (!tokens_[size].known) continue;
    tokens[size] = std::max(tokens_[size].value, 1.0);
    for (std::size_t between = last_known + 1; between < size; ++between) {
      const double share =
          static_cast<double>(between - last_known) / static_cast<double>(size - last_known);
      tokens[between] = tokens[last_known] + share * (tokens[size] - tokens[last_known]);
    }
    last_known = size;
  }
  for (std::size_t size = last_known + 1; size < kDraftSizes; ++size)
    tokens[size] = tokens[last_known];
  return tokens;
}

std::uint32_t RowBudget::rows_for(std::uint32_t sessions) const {
  const bool any_draft =
      std::any_of(tokens_.begin() + 1, tokens_.end(), [](const RunningMean& m) { return m.known; });
  if (!passes_.known() || !any_draft) return pass_rows_max_;
  const LinearCost pass = passes_.cost();
  const LinearCost delivery = deliveries_.cost();
  const auto tokens = tokens_by_size();
  const double n = std::max(sessions, 1u);
  std::uint32_t best_rows = 1;
  double best = 0.0;
  for (std::size_t size = 0; size < kDraftSizes && rows_of_size(size) <= pass_rows_max_; ++size) {
    const double rows = rows_of_size(size);
    const double delivered = delivery.seconds(tokens[size]);
    const double seconds = std::max(pass_seconds(pass, n * rows) + n * delivered,
                                    absence_.value + pass_seconds(pass, rows) + delivered);
    const double rate = n * tokens[size] / seconds;
    if (rate >= best) {
      best = rate;
      best_rows = rows_of_size(size);
    }
  }
  return best_rows;
}

}  // namespace edgedraft
