#include "client/engine/run_memory.h"

#include <gtest/gtest.h>

#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>

#include "tests/support/temporary_directory.h"

namespace edgedraft::client {
namespace {

const RunMemory::Key kKey{.server = "cloud:7420", .drafter = "kind abcd"};

RunKnowledge some_knowledge() {
  RunKnowledge known;
  known.pass.add(1, 0.030);
  known.pass.add(8, 0.034);
  known.step.add(8, 0.004);
  known.right = {70, 10, 3, 0, 0, 0, 0, 0};
  known.tried = 100;
  known.round_trip = 0.031;
  known.rates = {{{.tokens = 32, .seconds = 1.0}, {}, {.tokens = 16, .seconds = 0.4}, {}}};
  known.balance = -2.5;
  known.drafted_tokens = 40;
  return known;
}

class RunMemoryTest : public ::testing::Test {
 protected:
  nlohmann::json stored() const {
    std::ifstream in(file_);
    return nlohmann::json::parse(in);
  }
  void store(const nlohmann::json& json) const { std::ofstream(file_) << json.dump(); }

  test::TemporaryDirectory directory_;
  const std::filesystem::path file_ = directory_ / "below/servers.json";
};

TEST_F(RunMemoryTest, KeepsKnowledgeAcrossPrograms) {
  RunMemory memory(file_);
  EXPECT_FALSE(memory.find(kKey));
  ASSERT_TRUE(memory.put(kKey, some_knowledge()));
  const auto found = RunMemory(file_).find(kKey);
  ASSERT_TRUE(found);
  EXPECT_DOUBLE_EQ(found->pass.at(4), some_knowledge().pass.at(4));
  EXPECT_DOUBLE_EQ(found->step.at(8), 0.004);
  EXPECT_EQ(found->right, some_knowledge().right);
  EXPECT_EQ(found->tried, 100);
  EXPECT_EQ(found->round_trip, 0.031);
  EXPECT_EQ(found->rates, some_knowledge().rates);
  EXPECT_EQ(found->balance, -2.5);
  EXPECT_EQ(found->drafted_tokens, 40);
  EXPECT_FALSE(RunMemory(file_).find({.server = "cloud:7421", .drafter = kKey.drafter}));
  EXPECT_FALSE(RunMemory(file_).find({.server = kKey.server, .drafter = "another"}));
}

TEST_F(RunMemoryTest, SharesServerTimesAndFadesRanksOfOtherDrafters) {
  RunMemory memory(file_);
  ASSERT_TRUE(memory.put(kKey, some_knowledge()));
  RunKnowledge newer = some_knowledge();
  newer.pass.add(1, 1.0);
  newer.round_trip = 0.5;
  newer.right = {};
  ASSERT_TRUE(memory.put({.server = kKey.server, .drafter = "another"}, newer));
  ASSERT_TRUE(memory.put({.server = "elsewhere:1", .drafter = "another"}, some_knowledge()));
  const auto found = memory.find(kKey);
  ASSERT_TRUE(found);
  EXPECT_DOUBLE_EQ(found->pass.at(4), newer.pass.at(4));
  EXPECT_EQ(found->round_trip, 0.5);
  EXPECT_DOUBLE_EQ(found->step.at(8), 0.004) << "step times belong to one drafter";
  EXPECT_DOUBLE_EQ(found->tried, 90);
  EXPECT_DOUBLE_EQ(found->right[0], 63) << "ranks belong to one drafter and fade";
}

TEST_F(RunMemoryTest, EvictsOldestEntriesFirst) {
  RunMemory memory(file_);
  for (std::size_t i = 0; i <= RunMemory::kEntriesMax; ++i) {
    ASSERT_TRUE(memory.put({.server = std::to_string(i), .drafter = "d"}, some_knowledge()));
  }
  EXPECT_FALSE(memory.find({.server = "0", .drafter = "d"}));
  EXPECT_TRUE(memory.find({.server = "1", .drafter = "d"}));
  EXPECT_EQ(stored()["runs"].size(), RunMemory::kEntriesMax);
}

TEST_F(RunMemoryTest, IgnoresImpossibleValues) {
  ASSERT_TRUE(RunMemory(file_).put(kKey, some_knowledge()));
  nlohmann::json json = stored();
  auto& run = json["runs"][0];
  run["right"][0] = 101;  // exceeds 100
  run["round_trip"] = -1;
  run["pass"][2] = -5;
  run["rates"][0] = {1, 1e30};
  run["rates"][2] = {-1, 1};
  run["balance"] = 1e30;
  run["drafted_tokens"] = -1;
  store(json);
  const auto found = RunMemory(file_).find(kKey);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->tried, 0);
  EXPECT_EQ(found->round_trip, 0);
  EXPECT_FALSE(found->pass.known());
  EXPECT_TRUE(found->step.known());
  EXPECT_EQ(found->rates, RunKnowledge{}.rates);
  EXPECT_EQ(found->balance, 0);
  EXPECT_EQ(found->drafted_tokens, 0);
}

TEST_F(RunMemoryTest, IgnoresMoreRightGuessesThanTokens) {
  RunKnowledge known = some_knowledge();
  known.right.fill(100);  // 100 of 100 in each
  ASSERT_TRUE(RunMemory(file_).put(kKey, known));
  const auto found = RunMemory(file_).find(kKey);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->tried, 0);
  EXPECT_EQ(found->right, RunKnowledge{}.right);
  // Rounding while values are forgotten in parts must not look like that.
  RunMemory memory(file_);
  known.right = {70, 20, 10, 0, 0, 0, 0, 0};
  ASSERT_TRUE(memory.put(kKey, known));
  for (int i = 0; i < 100; ++i) {
    ASSERT_TRUE(memory.put({.server = kKey.server, .drafter = "another"}, some_knowledge()));
    EXPECT_GT(RunMemory(file_).find(kKey)->tried, 0) << i;
  }
}

TEST_F(RunMemoryTest, KeepsEarlierValuesThatLastDrafterDidNotMeasure) {
  RunMemory memory(file_);
  ASSERT_TRUE(memory.put(kKey, some_knowledge()));
  RunKnowledge cut;  // before the server made a pass for a draft
  cut.round_trip = 0.5;
  ASSERT_TRUE(memory.put({.server = kKey.server, .drafter = "another"}, cut));
  const auto found = memory.find(kKey);
  ASSERT_TRUE(found);
  EXPECT_DOUBLE_EQ(found->pass.at(4), some_knowledge().pass.at(4));
  EXPECT_EQ(found->round_trip, some_knowledge().round_trip);
  EXPECT_EQ(found->rates, some_knowledge().rates);
}

TEST_F(RunMemoryTest, IgnoresAndRewritesDamagedFile) {
  ASSERT_TRUE(RunMemory(file_).put(kKey, some_knowledge()));
  const nlohmann::json whole = stored();
  nlohmann::json other = whole;
  other["version"] = "another";
  nlohmann::json short_list = whole;
  short_list["runs"][0]["pass"] = {1, 2};
  nlohmann::json text = whole;
  text["runs"][0]["tried"] = "many";
  for (const auto& damaged :
       {other.dump(), short_list.dump(), text.dump(), std::string("{"), std::string("[1]")}) {
    std::ofstream(file_) << damaged;
    RunMemory memory(file_);
    EXPECT_FALSE(memory.find(kKey)) << damaged;
    ASSERT_TRUE(memory.put(kKey, some_knowledge()));
    EXPECT_TRUE(RunMemory(file_).find(kKey));
  }
}

}  // namespace
}  // namespace edgedraft::client
