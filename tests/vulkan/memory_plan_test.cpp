// The GPU memory predicted for a drafter equals the memory it uses.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "shared/drafting/kinds.h"
#include "shared/drafting/memory_need.h"
#include "tests/vulkan/vulkan_support.h"

namespace edgedraft::testing {
namespace {

constexpr TreeShape kDefaultShape{};
constexpr std::uint64_t kMiB = 1u << 20;

class VulkanMemoryTest : public VulkanTest {};

// Keys and values have type `kv_type`.
void expect_plan_is_kept(DType kv_type) {
  for (const char* name : {"moa-tli0", "moa-tli1", "independent"}) {
    SCOPED_TRACE(name);
    const auto file = GgufFile::open(std::string(EDGEDRAFT_MODELS "/") + name + ".gguf").value();
    const auto model = drafter_kind_of(file).value()->read(file).value();
    const std::uint32_t positions = model->facts().context_count;
    const auto unlimited = open_with({}).value();
    const auto plan = plan_vulkan_backend(unlimited->features(), kv_type).value();
    const std::uint64_t needed = memory_need(*model, *plan, positions, kDefaultShape).total(2);

    const auto meter = std::make_shared<MemoryMeter>(needed);
    {
      const auto backend = open_with({}, {.kv_type = kv_type, .meter = meter}).value();
      const MemoryNeed taken = memory_need(*model, *backend, positions, kDefaultShape);
      EXPECT_GE(taken.total(2), needed - needed / 20);
      EXPECT_LE(meter->peak(), needed);
    }
    EXPECT_EQ(meter->held(), 0u);

    const auto too_little = std::make_shared<MemoryMeter>(needed - 5 * kMiB);
    const auto backend = open_with({}, {.kv_type = kv_type, .meter = too_little}).value();
    EXPECT_THROW(memory_need(*model, *backend, positions, kDefaultShape), DeviceError);
    EXPECT_LE(too_little->peak(), too_little->limit());
  }
}

TEST_F(VulkanMemoryTest, StaysWithinPlanAndUsesNearlyAll) {
  expect_plan_is_kept(DType::f32);
}

TEST_F(VulkanMemoryTest, StaysWithinPlanWith16BitKeysAndValues) {
  if (!open_with({}).value()->takes_cache_type(DType::f16)) GTEST_SKIP() << "no 16-bit caches";
  expect_plan_is_kept(DType::f16);
}

// Coded types take more memory than in their files: 146 bytes per 256 elements, not 66.
TEST_F(VulkanMemoryTest, PlansRecodedSizeOfCodedTypes) {
  const auto plan = plan_vulkan_backend(open_with({}).value()->features(), DType::f32).value();
  constexpr std::uint32_t kRows = 1024;
  constexpr std::uint32_t kCols = 4096;
  const Bytes bytes(kRows * row_bytes(DType::iq2_xxs, kCols).value());
  const MatrixBytes matrix{.type = DType::iq2_xxs, .rows = kRows, .cols = kCols, .bytes = bytes};
  const auto table = plan->upload_table(matrix);
  EXPECT_EQ(plan->meter()->held(MemoryMeter::Use::weights), kRows * kCols / 256 * 146);
  const auto weight = plan->upload_matrix(matrix);
  EXPECT_EQ(plan->meter()->held(MemoryMeter::Use::weights), 2 * (kRows * kCols / 256 * 146));
}

TEST_F(VulkanMemoryTest, PlansStacksOfExpertsOfEveryType) {
  constexpr std::uint32_t kExperts = 3;
  constexpr std::uint32_t kRows = kExperts * 37;
  constexpr std::uint32_t kCols = 512;
  const auto backend = open_with({}, {.meter = std::make_shared<MemoryMeter>(64 * kMiB)}).value();
  const auto plan = plan_vulkan_backend(backend->features(), DType::f32).value();
  for (const DType type : kDTypes) {
    const Bytes bytes(kRows * row_bytes(type, kCols).value());
    const auto taken = [&](Backend& by) {
      const std::uint64_t before = by.meter()->held();
      const auto buffer = by.upload_matrix(
          {.type = type, .rows = kRows, .cols = kCols, .bytes = bytes, .experts = kExperts});
      return by.meter()->held() - before;
    };
    const std::uint64_t planned = taken(*plan);
    const std::uint64_t used = taken(*backend);
    EXPECT_LE(used, planned) << traits(type).name;
    EXPECT_LE(planned, used + used / 20) << traits(type).name;
  }
}

}  // namespace
}  // namespace edgedraft::testing
