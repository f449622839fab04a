#include "client/engine/memory_fit.h"

#include <gtest/gtest.h>

#include "client/engine/drafter_placement.h"
#include "shared/base/log.h"
#include "tests/support/expect.h"

namespace edgedraft::client {
namespace {

// 1000 bytes of weights, 100 of scratch, one byte per position and conversation.
MemoryNeed need_of(std::uint32_t positions) {
  return {.weights = 1000, .scratch = 100, .cache = positions};
}

Result<MemoryFit> fit(std::uint64_t limit, std::uint32_t conversations = 4,
                      std::uint32_t positions = 4096) {
  return fit_memory(limit, positions, conversations, need_of);
}

TEST(MemoryFitTest, KeepsRequestedSizesThatFit) {
  for (const std::uint64_t limit : {1100u + 4 * 4096u, 1u << 30}) {
    const auto fitted = fit(limit).value();
    EXPECT_EQ(fitted.conversations, 4u);
    EXPECT_EQ(fitted.positions, 4096u);
    EXPECT_EQ(fitted.need.total(4), 1100u + 4 * 4096u);
  }
}

TEST(MemoryFitTest, ReducesConversationsBeforeContext) {
  const auto three = fit(1100 + 4 * 4096 - 1).value();
  EXPECT_EQ(three.conversations, 3u);
  EXPECT_EQ(three.positions, 4096u);
  const auto one = fit(1100 + 4096).value();
  EXPECT_EQ(one.conversations, 1u);
  EXPECT_EQ(one.positions, 4096u);
  for (std::uint64_t limit = 1100 + 512; limit < 1100 + 4096; limit += 37) {
    const auto shorter = fit(limit).value();
    EXPECT_EQ(shorter.conversations, 1u);
    EXPECT_LE(shorter.need.total(1), limit);
    EXPECT_GT(shorter.need.total(1) + 2 * 256, limit) << "the limit is nearly used up";
    EXPECT_EQ(shorter.need.cache, shorter.positions);
  }
}

TEST(MemoryFitTest, RefusesTooLittleMemoryAndListsNeeds) {
  EXPECT_TRUE(fit(1100 + 512));
  const auto refused = fit(1100 + 512 - 1);
  ASSERT_TRUE(fails_with(refused, Errc::unsupported));
  for (const char* part : {"--memory", "weights", "KV cache of 512 tokens", "working memory",
                           "convert --type q4_0", "--plain"}) {
    EXPECT_TRUE(contains(refused.error().message, part)) << part;
  }
  // A drafter with a short context is not shortened.
  EXPECT_TRUE(fit(1100 + 100, 1, 100));
  EXPECT_FALSE(fit(1100 + 99, 1, 100));
}

// With the shipped drafters, on the CPU.
class PlacedMemoryTest : public ::testing::TestWithParam<const char*> {
 protected:
  DrafterPlacement::Options options(std::uint64_t limit, std::uint32_t conversations) const {
    return {.bundle = bundle_,
            .device = {.kind = DeviceRequest::Kind::cpu, .index = {}},
            .tree = TreeShape{},
            .threads = 2,
            .log = make_logger("off"),
            .meter = std::make_shared<MemoryMeter>(limit),
            .conversations = conversations};
  }
  MemoryNeed need(std::uint32_t positions) const {
    return DrafterPlacement::need_on(cpu_device(2), options(0, 1), positions);
  }

  BundleFile bundle_ =
      BundleFile::open(std::string(EDGEDRAFT_MODELS "/") + GetParam(), BundleUse::draft).value();
};

TEST_P(PlacedMemoryTest, ExactNeedFitsAndOneByteLessDoesNot) {
  const std::uint32_t context = bundle_.context_count();
  const std::uint64_t whole = need(context).total(3);
  const auto placed = DrafterPlacement::choose(options(whole, 3)).value();
  EXPECT_EQ(placed->conversations(), 3u);
  EXPECT_EQ(placed->positions(), context);
  EXPECT_EQ(DrafterPlacement::choose(options(whole - 1, 3)).value()->conversations(), 2u);

  const std::uint64_t least = need(kFittedPositionsMin).total(1);
  const auto shortened = DrafterPlacement::choose(options(least, 3)).value();
  EXPECT_EQ(shortened->conversations(), 1u);
  EXPECT_EQ(shortened->positions(), kFittedPositionsMin);
  EXPECT_TRUE(fails_with(DrafterPlacement::choose(options(least - 1, 3)), Errc::unsupported));
}

TEST_P(PlacedMemoryTest, MakesFittingDraftersWithinLimit) {
  const std::uint64_t limit = need(bundle_.context_count()).total(3);
  const DrafterPlacement::Options wanted = options(limit, 3);
  const auto placed = DrafterPlacement::choose(wanted).value();
  std::vector<std::unique_ptr<Drafter>> drafters;
  for (int i = 0; i < 3; ++i) {
    drafters.push_back(placed->drafters().make_drafter());
    drafters.back()->append(std::vector<std::uint32_t>(300, 5));
    (void)drafters.back()->draft({});
    EXPECT_LE(wanted.meter->held(), limit);
  }
  EXPECT_THROW((void)placed->drafters().make_drafter(), DeviceError)
      << "a fourth drafter exceeds the limit";
  drafters.pop_back();
  EXPECT_NO_THROW((void)placed->drafters().make_drafter());
}

INSTANTIATE_TEST_SUITE_P(Bundles, PlacedMemoryTest,
                         ::testing::Values("moa-tli0.gguf", "moa-tli1.gguf", "independent.gguf"),
                         [](const auto& bundle) {
                           const std::string name = bundle.param;
                           return name == "independent.gguf" ? std::string("independent")
                                                             : "moa_tli" + name.substr(7, 1);
                         });

}  // namespace
}  // namespace edgedraft::client
