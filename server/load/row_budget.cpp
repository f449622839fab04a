#include "server/load/row_budget.h"

#include <algorithm>
#include <bit>
#include <cmath>

namespace edgedraft {
namespace {

// Tokens beyond the target's own that each doubling of a draft's rows brings as a rule: trees of
// some 60 nodes of published drafters bring 4 to 6.
constexpr double kTokensADoubling = 0.75;
constexpr double kDraftsRemembered = 400.0;
// What the rule weighs, in drafts.
constexpr double kRuleWeight = 4.0;
// Rows of a draft while nothing tells what wider passes cost: a tree that is worth its rows on most
// devices, and takes no more than a second or so where a row costs as much as a pass.
constexpr std::uint32_t kFirstRows = 8;
// Nothing is concluded of passes more than so many times as wide as the widest that was seen.
constexpr double kGrowth = 4.0;

}  // namespace

DraftYield::DraftYield() : share_(kDraftsRemembered) {
  by_size_.fill(RunningMean(kDraftsRemembered));
}

void DraftYield::add(std::uint32_t rows, std::uint32_t tokens) {
  const std::size_t size = draft_size(rows);
  by_size_[size].add(tokens);
  if (size > 0) share_.add((tokens - 1.0) / (kTokensADoubling * static_cast<double>(size)));
}

double DraftYield::tokens(std::size_t size) const {
  const double share =
      (kRuleWeight + share_.weight() * share_.value()) / (kRuleWeight + share_.weight());
  const double expected = 1.0 + share * kTokensADoubling * static_cast<double>(size);
  const RunningMean& seen = by_size_[size];
  return std::max(
      1.0, (kRuleWeight * expected + seen.weight() * seen.value()) / (kRuleWeight + seen.weight()));
}

void RowBudget::observe_draft(std::uint32_t drafter, std::uint32_t rows, std::uint32_t tokens) {
  yield_.add(rows, tokens);
  yield_by_drafter_[drafter].add(rows, tokens);
}

double RowBudget::cycle_seconds(double sessions, double rows, double tokens) const {
  const double deliveries = deliveries_.known() ? sessions * deliveries_.seconds(tokens) : 0.0;
  const auto pass_of = [&](double groups) {
    return passes_.seconds(sessions * rows / groups) + deliveries / groups;
  };
  const auto cycle = [&](double groups) {
    return std::max(groups, 1.0 + absence_.value() / std::max(pass_of(groups), 1e-9)) *
           pass_of(groups);
  };
  // More groups cost passes, fewer let the server wait: the first number at which it does not wait,
  // or the one before.
  double few = std::ceil(sessions * rows / pass_rows_max_);
  double many = std::max(sessions, few);
  while (few < many) {
    const double middle = std::floor((few + many) / 2);
    if ((middle - 1.0) * pass_of(middle) >= absence_.value()) {
      many = middle;
    } else {
      few = middle + 1.0;
    }
  }
  const double fewest = std::ceil(sessions * rows / pass_rows_max_);
  return std::min(cycle(few), cycle(std::max(fewest, few - 1.0)));
}

RowBudget::Best RowBudget::best_draft(std::uint32_t sessions) const {
  const double n = std::max(sessions, 1u);
  Best best{.rows = 1, .tokens_per_second = 0.0};
  for (std::size_t size = 0; size < kDraftSizes && rows_of_size(size) <= pass_rows_max_; ++size) {
    const double tokens = size == 0 ? 1.0 : yield_.tokens(size);
    const double rate = tokens / cycle_seconds(n, rows_of_size(size), tokens);
    if (rate >= best.tokens_per_second) {
      best = {.rows = rows_of_size(size), .tokens_per_second = rate};
    }
  }
  return best;
}

std::uint32_t RowBudget::rows_for(std::uint32_t sessions) const {
  if (!passes_.knows_counts()) return std::min(kFirstRows, pass_rows_max_);
  const std::uint32_t best = best_draft(sessions).rows;
  const auto seen = passes_.seen_to();
  if (!seen) return best;
  const double most =
      std::max<double>(kFirstRows, kGrowth * std::bit_floor(static_cast<std::uint32_t>(*seen)));
  return static_cast<std::uint32_t>(std::min<double>(best, most));
}

double RowBudget::drafts_by_streams(std::uint32_t sessions) const {
  if (!passes_.knows_counts()) return 1.0;
  return best_draft(sessions).tokens_per_second * stream_seconds(sessions);
}

double RowBudget::stream_seconds(std::uint32_t sessions) const {
  if (!passes_.knows_counts()) return 0.0;
  const double n = std::max(sessions, 1u);
  const double passes = std::ceil(n / pass_rows_max_);
  return passes * passes_.seconds(n / passes);
}

std::optional<RowBudget::Outlook> RowBudget::outlook(std::uint32_t sessions,
                                                     std::uint32_t drafter) const {
  if (!passes_.knows_counts()) return std::nullopt;
  const double n = std::max(sessions, 1u);
  const auto own = yield_by_drafter_.find(drafter);
  const DraftYield none;
  const DraftYield& yield = own == yield_by_drafter_.end() ? none : own->second;
  Outlook outlook{.stream_seconds = stream_seconds(sessions), .draft_seconds = {}, .tokens = {}};
  for (std::size_t size = 0; size < kDraftSizes; ++size) {
    const double tokens = size == 0 ? 1.0 : yield.tokens(size);
    outlook.tokens[size] = tokens;
    outlook.draft_seconds[size] = cycle_seconds(n, rows_of_size(size), tokens) - absence_.value();
  }
  return outlook;
}

}  // namespace edgedraft
