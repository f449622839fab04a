#include "client/generation/online/drafter_memory.h"

#include <gtest/gtest.h>

#include <map>
#include <vector>

namespace edgedraft::client {
namespace {

using Positions = std::vector<std::uint32_t>;

// Stores the rows that it receives. Each value of a row equals its position.
class RowKeeper final : public Drafter {
 public:
  static constexpr std::uint32_t kCols = 3;

  std::uint32_t token_count() const override { return 0; }
  void append(std::span<const std::uint32_t>) override {}
  void truncate(std::uint32_t count) override { drop_activations(count); }
  std::uint32_t activation_cols() const override { return kCols; }
  void add_activations(std::uint32_t first, std::span<const float> rows) override {
    ASSERT_EQ(rows.size() % kCols, 0u);
    for (std::size_t i = 0; i < rows.size(); ++i) {
      const std::uint32_t position = first + static_cast<std::uint32_t>(i / kCols);
      EXPECT_EQ(rows[i], static_cast<float>(position));
      rows_[position] = rows[i];
    }
  }
  void drop_activations(std::uint32_t first) override {
    rows_.erase(rows_.lower_bound(first), rows_.end());
  }
  bool grow(TreeGrowth&, const GrowthBudget&) override { return true; }
  std::span<const float> next_logits() override { return {}; }

  Positions positions() const {
    Positions all;
    for (const auto& [position, row] : rows_) all.push_back(position);
    return all;
  }

 private:
  std::map<std::uint32_t, float> rows_;
};

Positions below(std::uint32_t end) {
  Positions all;
  for (std::uint32_t position = 0; position < end; ++position) all.push_back(position);
  return all;
}

class DrafterMemoryTest : public ::testing::Test {
 protected:
  // The server accepts a prompt whose first `end` tokens have rows.
  void take(std::uint32_t end) {
    memory_.expect_from(0);
    memory_.expect_until(end);
  }
  void come(std::uint32_t first, std::uint32_t end, bool complete = false) {
    std::vector<float> rows;
    for (std::uint32_t position = first; position < end; ++position) {
      rows.insert(rows.end(), RowKeeper::kCols, static_cast<float>(position));
    }
    memory_.add_part(first, end - first, rows, complete);
  }
  void truncate(std::uint32_t count) {
    drafter_.truncate(count);
    memory_.truncated(count);
  }

  RowKeeper drafter_;
  DrafterMemory memory_{&drafter_};
};

TEST_F(DrafterMemoryTest, AcceptsPromptRowsNewestFirst) {
  take(20);
  come(13, 20);
  EXPECT_TRUE(memory_.pending());
  EXPECT_EQ(memory_.complete_end(), 0u);
  come(6, 13);
  come(0, 6, true);
  EXPECT_FALSE(memory_.pending());
  EXPECT_EQ(memory_.complete_end(), 20u);
  EXPECT_EQ(drafter_.positions(), below(20));
}

// They are rows of the previous prompt that were still in flight.
TEST_F(DrafterMemoryTest, DropsRowsOfTruncatedTokens) {
  take(20);
  come(13, 20);
  truncate(10);
  come(6, 13);
  EXPECT_EQ(drafter_.positions(), (Positions{6, 7, 8, 9}));
  come(0, 6, true);
  EXPECT_EQ(drafter_.positions(), below(10));
  EXPECT_FALSE(memory_.pending());
  EXPECT_EQ(memory_.complete_end(), 10u);
}

TEST_F(DrafterMemoryTest, DropsLateRowsOfPreviousText) {
  take(20);
  truncate(0);
  come(13, 20);
  come(0, 13, true);
  EXPECT_EQ(drafter_.positions(), Positions());
  EXPECT_EQ(memory_.complete_end(), 0u);
  // The next prompt's rows are kept.
  take(7);
  come(0, 7, true);
  EXPECT_EQ(drafter_.positions(), below(7));
  EXPECT_EQ(memory_.complete_end(), 7u);
}

}  // namespace
}  // namespace edgedraft::client
