#include "tests/vulkan/vulkan_support.h"

// How recurrent operations are recorded; tests/runtime covers their results.
namespace edgedraft::testing {
namespace {

class VulkanRecurrentTest : public OpenVulkanTest {};

// Settled rows, the tree and the accepted path change with every pass.
TEST_F(VulkanRecurrentTest, RecordsCommandsOncePerRowCount) {
  constexpr std::uint32_t kRows = 6;
  constexpr std::uint32_t kDim = 8;
  const OwnedMatrix x = matrix_of(*vulkan_, kRows, 3 * kDim, random_floats(1, kRows * 3 * kDim));
  const OwnedMatrix convolved(*vulkan_, kRows, 3 * kDim);
  const OwnedMatrix y(*vulkan_, kRows, kDim);
  const OwnedMatrix inputs(*vulkan_, 3, 3 * kDim);
  const OwnedMatrix kept_inputs(*vulkan_, kMaskRowsMax, 3 * kDim);
  const OwnedMatrix state(*vulkan_, kDim, kDim);
  const OwnedMatrix kept(*vulkan_, kMaskRowsMax, 2 * kDim + 2);
  const TestWeight taps(*vulkan_, DType::f32, 3 * kDim, 4, random_floats(2, 12 * kDim));
  const TestWeight gate(*vulkan_, DType::f32, 1, 1, Floats{-1.0f});
  using Rows = std::vector<std::uint32_t>;
  const auto recordings_after = [&](std::uint32_t settled, const Rows& parents,
                                    const Rows& pending) {
    RecurrentRows rows{.rows = kRows,
                       .state = inputs.all(),
                       .kept = kept_inputs.all(),
                       .pending = pending,
                       .settled = settled,
                       .first = 0,
                       .parents = parents};
    vulkan_->convolve({.x = x.all(),
                       .weight = taps.table,
                       .activation = Activation::silu,
                       .y = convolved.all(),
                       .sequences = {&rows, 1}});
    rows.state = state.all();
    rows.kept = kept.all();
    vulkan_->delta_rule({.qkv = convolved.all(),
                         .alpha = x.all().column_range(0, 1),
                         .beta = x.all().column_range(1, 1),
                         .decay = gate.table,
                         .time_bias = gate.table,
                         .key_heads = 1,
                         .value_heads = 1,
                         .dim = kDim,
                         .epsilon = 1e-6f,
                         .y = y.all(),
                         .sequences = {&rows, 1}});
    values_of(*vulkan_, y.all());
    return vulkan_->counts().recordings;
  };
  const Rows chain = {kNoParent, 0, 1, 2, 3};
  recordings_after(1, chain, {});  // zeros the matrices
  const std::uint64_t before = recordings_after(1, chain, {});
  EXPECT_EQ(recordings_after(1, {kNoParent, kNoParent, 0, 0, 1}, {1, 2, 3}), before);
  EXPECT_EQ(recordings_after(0, {kNoParent, kNoParent, 0, 0, 1, 1}, {1, 3}), before);
  EXPECT_EQ(recordings_after(6, {}, {0, 2, 4, 5}), before);
}

}  // namespace
}  // namespace edgedraft::testing
