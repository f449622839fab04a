#include "server/load/load_forecast.h"

#include <algorithm>
#include <cmath>

#include "shared/protocol/draft_sizes.h"

namespace edgedraft {
namespace {

// How many times the tokens of streams drafts have to bring. The estimate leaves out that prompts
// take rows of passes, of which drafts want more, so a gain has to show. Going back to drafts takes
// a larger one, since all clients change over at once.
constexpr double kDraftsWorthIt = 1.02;
constexpr double kDraftsWorthItAgain = 1.05;

std::uint32_t in_microseconds(double seconds) {
  return static_cast<std::uint32_t>(std::clamp(std::lround(1e6 * seconds), 1l, 1l << 30));
}

}  // namespace

LoadForecast::LoadForecast(const Options& options)
    : options_(options),
      budget_(options.pass_rows_max),
      row_budget_(options.row_budget > 0 ? options.row_budget : budget_.rows_for(1)) {}

void LoadForecast::set_sessions(std::uint32_t sessions) {
  sessions_ = std::max(sessions, 1u);
  if (options_.row_budget == 0) row_budget_ = budget_.rows_for(sessions_);
  // A lone session takes nothing from others.
  prefers_streams_ = sessions_ > 1 && !options_.drafts_for_streams &&
                     budget_.drafts_by_streams(sessions_) <
                         (prefers_streams_ ? kDraftsWorthItAgain : kDraftsWorthIt);
}

void LoadForecast::tell(Answer to, std::uint32_t drafter, wire::Verdict& verdict) const {
  verdict.row_budget = row_budget_;
  verdict.prefers_streams = prefers_streams_;
  if (to == Answer::stream) return;
  const double streamed =
      options_.drafts_for_streams ? streamed_.value() : budget_.stream_seconds(sessions_);
  if (streamed > 0) verdict.stream_us = in_microseconds(streamed);
  if (to != Answer::prompt) return;
  const auto outlook = budget_.outlook(sessions_, drafter);
  if (!outlook) return;
  const std::size_t sizes = draft_size(row_budget_) + 1;
  for (std::size_t size = 0; size < sizes; ++size) {
    verdict.outlook_us.push_back(in_microseconds(outlook->draft_seconds[size]));
    verdict.outlook_tokens.push_back(static_cast<std::uint8_t>(
        std::clamp(std::lround(wire::kOutlookTokenParts * outlook->tokens[size]), 1l, 255l)));
  }
}

}  // namespace edgedraft
