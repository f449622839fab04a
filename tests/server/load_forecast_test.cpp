#include "server/load/load_forecast.h"

#include <gtest/gtest.h>

#include "shared/protocol/draft_sizes.h"

namespace edgedraft {
namespace {

using std::chrono::microseconds;
using Answer = LoadForecast::Answer;

// Passes of `fixed` and `a_row` for each row, as measured at the start.
LoadForecast measured(LoadForecast::Options options, microseconds fixed, microseconds a_row) {
  LoadForecast forecast(options);
  for (const std::uint32_t rows : {1u, 8u, 64u, 256u}) {
    forecast.seen().anchor_pass(rows, fixed + rows * a_row);
  }
  forecast.set_sessions(1);
  return forecast;
}

wire::Verdict told(const LoadForecast& forecast, Answer to) {
  wire::Verdict verdict;
  forecast.tell(to, 1, verdict);
  return verdict;
}

TEST(LoadForecastTest, BeforeAnythingWasSeenItTellsASmallBudgetAlone) {
  const wire::Verdict verdict = told(LoadForecast({.pass_rows_max = 256}), Answer::prompt);
  EXPECT_EQ(verdict.row_budget, 8u);
  EXPECT_EQ(verdict.stream_us, 0u);
  EXPECT_TRUE(verdict.outlook_us.empty());
  EXPECT_FALSE(verdict.prefers_streams);
}

TEST(LoadForecastTest, TellsEachAnswerWhatItsClientCannotMeasure) {
  const auto forecast = measured({.pass_rows_max = 256}, microseconds(1000), microseconds(10));
  const wire::Verdict prompt = told(forecast, Answer::prompt);
  EXPECT_NEAR(prompt.stream_us, 1010, 5);
  EXPECT_EQ(prompt.outlook_us.size(), draft_size(prompt.row_budget) + 1);
  const wire::Verdict draft = told(forecast, Answer::draft);
  EXPECT_EQ(draft.stream_us, prompt.stream_us);
  EXPECT_TRUE(draft.outlook_us.empty());
  const wire::Verdict stream = told(forecast, Answer::stream);
  EXPECT_EQ(stream.row_budget, prompt.row_budget);
  EXPECT_EQ(stream.stream_us, 0u);
}

TEST(LoadForecastTest, AFixedBudgetStaysWhateverTheLoad) {
  auto forecast =
      measured({.pass_rows_max = 256, .row_budget = 100}, microseconds(100), microseconds(100));
  forecast.set_sessions(200);
  EXPECT_EQ(forecast.row_budget(), 100u);
}

TEST(LoadForecastTest, StreamsArePreferredUnderLoadAloneAndNeverWhereTheServerDrafts) {
  auto forecast = measured({.pass_rows_max = 256}, microseconds(200), microseconds(100));
  EXPECT_FALSE(told(forecast, Answer::draft).prefers_streams);
  forecast.set_sessions(64);
  EXPECT_TRUE(told(forecast, Answer::draft).prefers_streams);
  forecast.set_sessions(1);
  EXPECT_FALSE(told(forecast, Answer::draft).prefers_streams);
  auto drafting = measured({.pass_rows_max = 256, .drafts_for_streams = true}, microseconds(200),
                           microseconds(100));
  drafting.set_sessions(64);
  EXPECT_FALSE(told(drafting, Answer::draft).prefers_streams);
  EXPECT_EQ(told(drafting, Answer::draft).stream_us, 0u) << "no stream was seen yet";
  drafting.observe_streamed(0.002);
  EXPECT_EQ(told(drafting, Answer::draft).stream_us, 2000u);
}

}  // namespace
}  // namespace edgedraft
