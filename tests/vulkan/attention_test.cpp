#include <algorithm>
#include <numeric>

#include "client/vulkan/scratch_sizes.h"
#include "tests/vulkan/vulkan_support.h"

// How attention is split on a Vulkan device; tests/runtime covers its results.
namespace edgedraft::testing {
namespace {

constexpr HeadShape kHeads{.query_heads = 8, .kv_heads = 2, .head_dim = 12};

class VulkanAttentionTest : public OpenVulkanTest {
 protected:
  Floats attend(const Matrix& q, const Matrix& keys, const Matrix& values, std::uint32_t prefix,
                const std::vector<AncestorMask>& masks, const HeadShape& heads = kHeads,
                std::uint32_t window = 0) {
    const OwnedMatrix y(*vulkan_, q.rows, heads.query_cols());
    std::vector<std::uint32_t> positions(q.rows);
    std::iota(positions.begin(), positions.end(), prefix);
    vulkan_->attention({.q = q,
                        .keys = keys,
                        .values = values,
                        .prefix = prefix,
                        .masks = masks,
                        .heads = heads,
                        .y = y.all(),
                        .scale = heads.score_scale(),
                        .window = window,
                        .positions = positions});
    return values_of(*vulkan_, y.all());
  }
};

TEST_F(VulkanAttentionTest, SplitsSlotsOnlyForLongContexts) {
  if (!vulkan_->device().timestamps) GTEST_SKIP() << "the device has no timestamps";
  const OwnedMatrix q(*vulkan_, 2, kHeads.query_cols());
  const OwnedMatrix cache(*vulkan_, 1000, kHeads.kv_cols());
  std::vector<AncestorMask> masks(2);
  for (AncestorMask& mask : masks) mask.set(0);
  masks[1].set(1);
  vulkan_->set_timing(MeasuredBackend::Timing::each);
  const auto operations = [&](std::uint32_t prefix) {
    attend(q.all(), cache.all(), cache.all(), prefix, masks);
    std::vector<std::string> names;
    for (const auto& time : vulkan_->take_times()) names.push_back(time.name);
    return names;
  };
  const std::vector<std::string> whole = {"attention"};
  const std::vector<std::string> divided = {"attention", "combine"};
  operations(1);  // zeros the matrices
  EXPECT_EQ(operations(1), whole);
  EXPECT_EQ(operations(shaders::kAttentionSplit - 2), whole);
  EXPECT_EQ(operations(shaders::kAttentionSplit - 1), divided);
  EXPECT_EQ(operations(900), divided);
}

// Recorded commands take the prefix as a parameter; the number of splits is fixed in them.
TEST_F(VulkanAttentionTest, RecordsCommandsAgainOnlyIfSplitIsAdded) {
  const OwnedMatrix q(*vulkan_, 1, kHeads.query_cols());
  const OwnedMatrix y(*vulkan_, 1, kHeads.query_cols());
  const OwnedMatrix cache(*vulkan_, 1000, kHeads.kv_cols());
  const auto recordings_after = [&](std::uint32_t prefix) {
    vulkan_->attention({.q = q.all(),
                        .keys = cache.all(),
                        .values = cache.all(),
                        .prefix = prefix,
                        .masks = {},
                        .heads = kHeads,
                        .y = y.all(),
                        .scale = kHeads.score_scale()});
    values_of(*vulkan_, y.all());
    return vulkan_->counts().recordings;
  };
  recordings_after(shaders::kAttentionSplit + 1);  // allocates the splits
  const std::uint64_t before = recordings_after(shaders::kAttentionSplit + 2);
  for (std::uint32_t prefix = shaders::kAttentionSplit + 3; prefix <= 2 * shaders::kAttentionSplit;
       ++prefix) {
    ASSERT_EQ(recordings_after(prefix), before) << prefix;
  }
  EXPECT_EQ(recordings_after(2 * shaders::kAttentionSplit + 1), before + 1);
}

// A cache of many slots leaves memory for the splits of only a few rows per call. The rows' bits
// equal those with a small cache.
TEST_F(VulkanAttentionTest, LimitsRowsPerCallByMemoryWithSameBits) {
  constexpr std::uint32_t kRows = 50;
  constexpr std::uint32_t kPrefix = 300;
  constexpr std::uint32_t kSlots = 250'000;
  constexpr HeadShape kSmall{.query_heads = 16, .kv_heads = 2, .head_dim = 2};
  const vulkan::AttentionParts parts(kSmall, kSlots, kRows);
  ASSERT_LT(parts.rows, kRows / 2);
  const OwnedMatrix q = matrix_of(*vulkan_, kRows, kSmall.query_cols(),
                                  random_floats(1, kRows * kSmall.query_cols()));
  const auto masks = random_tree(5, kRows);
  for (const std::uint32_t window : {0u, 140u}) {
    Floats results[2];
    for (const bool is_large : {false, true}) {
      const std::uint32_t slots = is_large ? kSlots : kPrefix + kRows;
      const OwnedMatrix keys(*vulkan_, slots, kSmall.kv_cols());
      const OwnedMatrix values(*vulkan_, slots, kSmall.kv_cols());
      const std::size_t numbers = (kPrefix + kRows) * kSmall.kv_cols();
      vulkan_->write(keys.rows(kPrefix + kRows), random_floats(2, numbers));
      vulkan_->write(values.rows(kPrefix + kRows), random_floats(3, numbers));
      results[is_large] = attend(q.all(), keys.all(), values.all(), kPrefix, masks, kSmall, window);
    }
    EXPECT_TRUE(same_bytes(results[0], results[1])) << "window " << window;
  }
}

// Aligned keys and values are read as vectors, others one element at a time, with the same bits.
TEST_F(VulkanAttentionTest, HasSameBitsWithoutAlignment) {
  constexpr std::uint32_t kRows = 5;
  const auto masks = random_tree(5, kRows);
  for (const std::uint32_t prefix : {40u, 300u}) {
    const std::uint32_t slots = prefix + kRows;
    const OwnedMatrix q = matrix_of(*vulkan_, kRows, kHeads.query_cols(),
                                    random_floats(1, kRows * kHeads.query_cols()));
    Floats results[2];
    for (const std::uint32_t shift : {0u, 1u}) {
      const OwnedMatrix keys(*vulkan_, slots, kHeads.kv_cols() + shift);
      const OwnedMatrix values(*vulkan_, slots, kHeads.kv_cols() + shift);
      const Matrix own_keys = keys.all().column_range(shift, kHeads.kv_cols());
      const Matrix own_values = values.all().column_range(shift, kHeads.kv_cols());
      vulkan_->write(own_keys, random_floats(2, slots * kHeads.kv_cols()));
      vulkan_->write(own_values, random_floats(3, slots * kHeads.kv_cols()));
      results[shift] = attend(q.all(), own_keys, own_values, prefix, masks);
    }
    EXPECT_TRUE(same_bytes(results[0], results[1])) << prefix;
  }
}

// One row may exceed the limit on splits, which are then a small part of the cache.
TEST(AttentionPartsTest, StayWithinMemoryLimit) {
  for (const HeadShape heads : {HeadShape{32, 8, 128}, HeadShape{4, 4, 64}, HeadShape{14, 2, 64}}) {
    for (const std::uint64_t slots : {1u, 129u, 4096u, 131072u}) {
      std::uint64_t fewer = 0;
      for (std::uint64_t rows = 1; rows <= kMaskRowsMax; ++rows) {
        const vulkan::AttentionParts parts(heads, slots, rows);
        EXPECT_GE(parts.rows, 1u);
        EXPECT_LE(parts.rows, rows);
        EXPECT_GE(parts.bytes(), fewer) << "a plan for more rows must suffice for fewer";
        fewer = parts.bytes();
        const std::uint64_t cache = 2 * slots * heads.kv_cols() * sizeof(float);
        EXPECT_LE(parts.bytes(), std::max(vulkan::AttentionParts::kBytesMax, cache / 16));
      }
    }
  }
}

}  // namespace
}  // namespace edgedraft::testing
