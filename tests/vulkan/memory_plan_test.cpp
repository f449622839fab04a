// What a drafter is said to need on a GPU is what it then takes there.
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "shared/drafting/kinds.h"
#include "shared/drafting/memory_need.h"
#include "tests/vulkan/vulkan_support.h"

namespace edgedraft::testing {
namespace {

constexpr TreeShape kShape{};
constexpr std::uint64_t kMiB = 1u << 20;

class VulkanMemoryTest : public VulkanTest {};

TEST_F(VulkanMemoryTest, ThePlanIsKeptAndLittleOfItStaysUnused) {
  for (const char* name : {"moa-tli0", "moa-tli1", "independent"}) {
    SCOPED_TRACE(name);
    const auto file = GgufFile::open(std::string(EDGEDRAFT_MODELS "/") + name + ".gguf").value();
    const auto model = drafter_kind_of(file).value()->read(file).value();
    const std::uint32_t positions = model->facts().context_count;
    const auto unlimited = open_with({}).value();
    const auto plan = plan_vulkan_backend(unlimited->features()).value();
    const std::uint64_t needed = memory_need(*model, *plan, positions, kShape).total(2);

    const auto meter = std::make_shared<MemoryMeter>(needed);
    {
      const auto backend = open_with({}, {.meter = meter}).value();
      const MemoryNeed taken = memory_need(*model, *backend, positions, kShape);
      EXPECT_GE(taken.total(2), needed - needed / 20);
      EXPECT_LE(meter->peak(), needed);
    }
    EXPECT_EQ(meter->held(), 0u);

    const auto too_little = std::make_shared<MemoryMeter>(needed - 5 * kMiB);
    const auto backend = open_with({}, {.meter = too_little}).value();
    EXPECT_THROW(memory_need(*model, *backend, positions, kShape), DeviceError);
    EXPECT_LE(too_little->peak(), too_little->limit());
  }
}

}  // namespace
}  // namespace edgedraft::testing
