#include "server/load/row_budget.h"

#include <gtest/gtest.h>

#include "shared/protocol/draft_sizes.h"

namespace edgedraft {
namespace {

using std::chrono::microseconds;

// A server whose passes cost `fixed` and `a_row` for each row, and drafts that bring
// 1 + log2(rows) / 2 tokens.
RowBudget learned(microseconds fixed, microseconds a_row, microseconds absence) {
  RowBudget budget(256);
  for (int i = 0; i < 200; ++i) {
    for (std::uint32_t log = 0; log <= 6; ++log) {
      const std::uint32_t rows = 1u << log;
      budget.observe_pass(rows, fixed + rows * a_row);
      budget.observe_draft(1, rows, 1 + log / 2);
      budget.observe_absence(absence);
    }
  }
  return budget;
}

TEST(RowBudgetTest, BeginsSmallAndTellsNothingUntilTwoWidthsWereSeen) {
  RowBudget budget(256);
  EXPECT_EQ(budget.rows_for(1), 8u);
  EXPECT_FALSE(budget.outlook(1, 1));
  // Prompts of about the same length: were their passes taken for what rows cost, a row would seem
  // to cost nothing, or everything.
  for (const std::uint32_t rows : {30u, 31u, 30u}) {
    budget.observe_pass(rows, std::chrono::milliseconds(100 * rows));
    EXPECT_EQ(budget.rows_for(1), 8u);
    EXPECT_FALSE(budget.outlook(1, 1));
    EXPECT_EQ(budget.stream_seconds(1), 0.0);
    EXPECT_EQ(budget.drafts_by_streams(4), 1.0);
  }
  budget.observe_pass(8, std::chrono::milliseconds(800));
  EXPECT_TRUE(budget.outlook(1, 1));
  EXPECT_NEAR(budget.stream_seconds(1), 0.1, 0.05);
}

// A target of 1.1 B on two busy cores, where a tree of 62 takes seconds.
TEST(RowBudgetTest, WhereRowsCostAsMuchAsPassesItStaysSmall) {
  RowBudget budget(256);
  budget.observe_pass(30, std::chrono::milliseconds(3000));
  for (int i = 0; i < 20; ++i) {
    const std::uint32_t rows = budget.rows_for(1);
    EXPECT_LE(rows, 8u) << i;
    budget.observe_pass(rows, std::chrono::milliseconds(100 * rows));
    budget.observe_draft(1, rows, 2);
    budget.observe_absence(std::chrono::milliseconds(50));
  }
}

// A device whose passes of any width take the same.
TEST(RowBudgetTest, WhereRowsAreCheapItGrowsWithinAFewDrafts) {
  RowBudget budget(256);
  budget.observe_pass(4, microseconds(10'004));
  std::vector<std::uint32_t> told;
  for (int i = 0; i < 4; ++i) {
    told.push_back(budget.rows_for(1));
    budget.observe_pass(told.back(), microseconds(10'000 + told.back()));
    budget.observe_draft(1, told.back(), 2);
    budget.observe_absence(std::chrono::milliseconds(20));
  }
  EXPECT_EQ(told[0], 8u);
  EXPECT_EQ(told[1], 32u);
  EXPECT_GE(told[3], 64u);
}

// As measured at the start of a server whose passes take `fixed` and `a_row` for each row.
RowBudget fresh(microseconds fixed, microseconds a_row) {
  RowBudget budget(256);
  for (const std::uint32_t rows : {1u, 8u, 64u, 256u}) {
    budget.anchor_pass(rows, fixed + rows * a_row);
  }
  return budget;
}

// Whether drafts of any size are to bring more than a stream, to devices that take no time.
bool drafts_pay(const RowBudget& budget, std::uint32_t sessions) {
  const auto outlook = *budget.outlook(sessions, 1);
  for (std::size_t size = 1; size <= draft_size(budget.rows_for(sessions)); ++size) {
    if (outlook.tokens[size] * outlook.stream_seconds > outlook.draft_seconds[size]) return true;
  }
  return false;
}

TEST(RowBudgetTest, SixtyFourBeginnersAreToldToStreamWhereARowCostsAsMuchAsAPass) {
  const RowBudget cpu = fresh(microseconds(200), microseconds(100));
  EXPECT_FALSE(drafts_pay(cpu, 64));
  EXPECT_LE(cpu.rows_for(64), 4u);
}

TEST(RowBudgetTest, SixtyFourBeginnersAreToldToDraftWhereRowsAreCheap) {
  const RowBudget gpu = fresh(microseconds(30'000), microseconds(80));
  EXPECT_TRUE(drafts_pay(gpu, 64));
  EXPECT_TRUE(drafts_pay(gpu, 1));
  // All of them fit into one pass.
  EXPECT_LE(gpu.rows_for(64), 4u);
  EXPECT_GE(gpu.rows_for(1), 32u);
}

// Where devices are away for long, drafts of few of them leave the server idle, and streams do not.
TEST(RowBudgetTest, WhetherDraftsServeMoreThanStreamsDependsOnLoadAndAbsence) {
  RowBudget gpu = fresh(microseconds(30'000), microseconds(80));
  EXPECT_GT(gpu.drafts_by_streams(1), 2.0);
  EXPECT_GT(gpu.drafts_by_streams(64), 1.1);
  const RowBudget cpu = fresh(microseconds(200), microseconds(100));
  EXPECT_LE(cpu.drafts_by_streams(64), 1.0);
  for (int i = 0; i < 50; ++i) gpu.observe_absence(std::chrono::milliseconds(400));
  EXPECT_LT(gpu.drafts_by_streams(1), 1.0);
}

// One of them comes back after an hour, now and then: the others are not told to draft as if the
// server had nothing to do.
TEST(RowBudgetTest, WhoIsAwayForLongDoesNotDecideForAll) {
  constexpr Duration kUsual = std::chrono::milliseconds(10);
  const auto told = [&](Duration longest) {
    RowBudget cpu = fresh(microseconds(200), microseconds(100));
    for (int i = 0; i < 1000; ++i) cpu.observe_absence(i % 100 == 99 ? longest : kUsual);
    return cpu.rows_for(64);
  };
  EXPECT_LE(told(kUsual), 4u);
  EXPECT_EQ(told(std::chrono::hours(1)), told(RowBudget::kAbsenceMax));
}

TEST(RowBudgetTest, PassesOfOneWidthLeaveWhatWasMeasuredAtTheStart) {
  RowBudget budget = fresh(microseconds(200), microseconds(100));
  for (int i = 0; i < 5000; ++i) {
    budget.observe_pass(64 + i % 2, microseconds(6600 + 300 * (i % 3)));
  }
  const double one = budget.outlook(1, 1)->stream_seconds;
  EXPECT_GT(one, 0.0001);
  EXPECT_LT(one, 0.0015);
}

TEST(RowBudgetTest, EachDrafterHasAnOutlookOfItsOwn) {
  RowBudget budget = fresh(microseconds(1000), microseconds(10));
  for (int i = 0; i < 100; ++i) {
    budget.observe_draft(1, 64, 6);
    budget.observe_draft(2, 64, 1);
  }
  EXPECT_NEAR(budget.outlook(1, 1)->tokens[6], 6.0, 0.1);
  EXPECT_NEAR(budget.outlook(1, 2)->tokens[6], 1.0, 0.5);
  // Sizes that were never sent are judged by the others.
  EXPECT_GT(budget.outlook(1, 1)->tokens[3], 3.0);
  EXPECT_LT(budget.outlook(1, 2)->tokens[3], 1.5);
  // What nobody has drafted with is as drafters are as a rule.
  EXPECT_NEAR(budget.outlook(1, 3)->tokens[6], 5.5, 0.1);
}

// One other client's draft must not show in what is told.
TEST(RowBudgetTest, ASingleDraftMovesTheOutlookByLessThanIsTold) {
  RowBudget budget = fresh(microseconds(1000), microseconds(10));
  for (int i = 0; i < 400; ++i) budget.observe_draft(1, 16, 1 + i % 4);
  const double before = budget.outlook(1, 1)->tokens[4];
  budget.observe_draft(1, 16, 5);
  EXPECT_LT(budget.outlook(1, 1)->tokens[4] - before, 0.125);
}

TEST(RowBudgetTest, RowsThatCostNothingAreTaken) {
  EXPECT_EQ(learned(microseconds(1000), microseconds(0), microseconds(0)).rows_for(1), 256u);
}

TEST(RowBudgetTest, OneClientBehindASlowLinkGetsATree) {
  const RowBudget budget = learned(microseconds(200), microseconds(35), microseconds(40'000));
  EXPECT_GE(budget.rows_for(1), 32u);
}

TEST(RowBudgetTest, ShrinksToSingleTokensAsLoadRises) {
  // A row costs as much as half a pass: under full load only single tokens pay.
  const RowBudget budget = learned(microseconds(100), microseconds(100), microseconds(20'000));
  std::uint32_t before = budget.rows_for(1);
  EXPECT_GE(before, 16u);
  for (const std::uint32_t sessions : {2u, 8u, 32u, 128u, 512u}) {
    const std::uint32_t rows = budget.rows_for(sessions);
    EXPECT_LE(rows, before) << sessions;
    before = rows;
  }
  EXPECT_EQ(before, 1u);
}

TEST(RowBudgetTest, PassesThatCostTheSameWhateverTheirWidthKeepTheirRowsFull) {
  // 16 sessions with 16 rows fill a pass of 256 that costs no more than one of 16.
  const RowBudget budget = learned(microseconds(10'000), microseconds(1), microseconds(1000));
  EXPECT_GE(budget.rows_for(16), 16u);
}

TEST(RowBudgetTest, WhatActivationsCostCountsAsLoad) {
  const auto rows = [](microseconds a_token, std::uint32_t sessions) {
    RowBudget budget(256);
    for (int i = 0; i < 200; ++i) {
      for (std::uint32_t log = 0; log <= 6; ++log) {
        budget.observe_pass(1u << log, microseconds(1000) + (1u << log) * microseconds(10));
        budget.observe_draft(1, 1u << log, 1 + log / 2);
        budget.observe_delivery(1 + log / 2, microseconds(50) + (1 + log / 2) * a_token);
        budget.observe_absence(microseconds(20'000));
      }
    }
    return budget.rows_for(sessions);
  };
  // 8 sessions leave time for trees while activations are cheap. Where they fill the server's time
  // themselves, rows that bring few more tokens only add to the load.
  EXPECT_GE(rows(microseconds(0), 8), 16u);
  EXPECT_LT(rows(microseconds(3000), 8), rows(microseconds(0), 8));
}

TEST(RowBudgetTest, DraftsThatAreNeverAcceptedAreNotWanted) {
  RowBudget budget(256);
  for (int i = 0; i < 100; ++i) {
    for (const std::uint32_t rows : {1u, 8u, 64u}) {
      budget.observe_pass(rows, microseconds(100 + 20 * rows));
      budget.observe_draft(1, rows, 1);
    }
  }
  EXPECT_EQ(budget.rows_for(1), 1u);
}

}  // namespace
}  // namespace edgedraft
