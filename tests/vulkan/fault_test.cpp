#include <algorithm>

#include "tests/vulkan/vulkan_support.h"

// Makes every fallible Vulkan call fail, at each of its first calls in turn, in a run that uses the
// whole backend. The result must be an Error or a DeviceError without leaks: the validation layer
// reports objects alive at device destruction, AddressSanitizer the rest.
namespace edgedraft::testing {
namespace {

struct Plan {
  int fail_at = 0;  // counted from 1; 0: never
  bool stays = false;
  VkResult result = VK_SUCCESS;
  int calls = 0;
};
Plan plan;

// Wraps a function of the table; consults the plan first.
template <auto Member>
struct Tapped;
template <class... Args, VkResult (VKAPI_PTR* vulkan::Functions::*Member)(Args...)>
struct Tapped<Member> {
  static inline VkResult(VKAPI_PTR* original)(Args...) = nullptr;

  static VKAPI_ATTR VkResult VKAPI_CALL call(Args... args) {
    ++plan.calls;
    const bool is_later = plan.stays && plan.fail_at != 0 && plan.calls > plan.fail_at;
    if (plan.calls == plan.fail_at || is_later) return plan.result;
    return original(args...);
  }
  static void install(vulkan::Functions& functions) {
    intercept(functions.*Member, original, call);
  }
};

// Counts calls of the planned function; none fails yet.
template <auto Member>
Result<std::unique_ptr<MeasuredBackend>> open_tapped() {
  plan = {};
  return open_with({.adjust = Tapped<Member>::install});
}

struct Fault {
  const char* name;
  void (*install)(vulkan::Functions&);
  // Needs the validation layer, timestamps or an integer dot product, which some machines lack.
  bool needs_more = false;
};
void PrintTo(const Fault& fault, std::ostream* out) {
  *out << fault.name;
}

Fault needing_more(Fault fault) {
  fault.needs_more = true;
  return fault;
}

// clang-format off
#define EDGEDRAFT_FAULT(name) Fault{#name, Tapped<&vulkan::Functions::name>::install}
// clang-format on
const Fault kFaults[] = {
    EDGEDRAFT_FAULT(EnumerateInstanceVersion),
    EDGEDRAFT_FAULT(EnumerateInstanceLayerProperties),
    EDGEDRAFT_FAULT(EnumerateInstanceExtensionProperties),
    EDGEDRAFT_FAULT(CreateInstance),
    needing_more(EDGEDRAFT_FAULT(CreateDebugUtilsMessengerEXT)),
    EDGEDRAFT_FAULT(EnumeratePhysicalDevices),
    EDGEDRAFT_FAULT(EnumerateDeviceExtensionProperties),
    EDGEDRAFT_FAULT(CreateDevice),
    EDGEDRAFT_FAULT(CreateCommandPool),
    EDGEDRAFT_FAULT(CreateSemaphore),
    EDGEDRAFT_FAULT(CreateDescriptorSetLayout),
    EDGEDRAFT_FAULT(CreatePipelineLayout),
    EDGEDRAFT_FAULT(CreatePipelineCache),
    EDGEDRAFT_FAULT(CreateBuffer),
    EDGEDRAFT_FAULT(AllocateMemory),
    EDGEDRAFT_FAULT(BindBufferMemory),
    EDGEDRAFT_FAULT(MapMemory),
    EDGEDRAFT_FAULT(AllocateCommandBuffers),
    EDGEDRAFT_FAULT(BeginCommandBuffer),
    EDGEDRAFT_FAULT(EndCommandBuffer),
    EDGEDRAFT_FAULT(CreateShaderModule),
    EDGEDRAFT_FAULT(CreateComputePipelines),
    EDGEDRAFT_FAULT(CreateDescriptorPool),
    EDGEDRAFT_FAULT(AllocateDescriptorSets),
    needing_more(EDGEDRAFT_FAULT(CreateQueryPool)),
    needing_more(EDGEDRAFT_FAULT(GetQueryPoolResults)),
    EDGEDRAFT_FAULT(QueueSubmit),
    EDGEDRAFT_FAULT(WaitSemaphores),
};

// Uses the whole backend: small and large transfers, recording, timestamps, results.
void use(MeasuredBackend& backend) {
  const OwnedMatrix x = matrix_of(backend, 2, 64, random_floats(1, 128));
  const OwnedMatrix y(backend, 2, 1100);
  const TestWeight w(backend, DType::q8_0, 1100, 64, random_floats(2, 1100 * 64));
  if (backend.device().timestamps) backend.set_timing(MeasuredBackend::Timing::whole);
  std::vector<std::uint32_t> tokens(4);
  Floats log_probs(4);
  for (int round = 0; round < 2; ++round) {
    backend.matmul({.x = x.all(), .weight = w.weight, .bias = {}, .y = y.all()});
    backend.top_k({.logits = y.all(), .k = 2, .tokens = tokens, .log_probs = log_probs});
    backend.take_times();
  }
  const OwnedMatrix large = matrix_of(backend, 700, 100, Floats(70'000, 1.0f));
  EXPECT_EQ(values_of(backend, large.all()), Floats(70'000, 1.0f));
}

// Returns the outcome, or empty if nothing failed.
std::string run(const Fault& fault) {
  try {
    const VulkanFeatures all = usable_vulkan_devices().front().features;
    auto backend = open_with({.adjust = fault.install}, {.features = all});
    if (!backend) return backend.error().message;
    use(**backend);
  } catch (const DeviceError& error) {
    return error.what();
  }
  return {};
}

class VulkanFaultTest : public VulkanTest {};

// Guards the tests below: without this report they would prove little.
TEST_F(VulkanFaultTest, ValidationLayerReportsLeaks) {
#if defined(__SANITIZE_ADDRESS__)
  GTEST_SKIP() << "leaks on purpose, which AddressSanitizer would report";
#endif
  std::vector<std::string> messages;
  vulkan::Hooks hooks;
  hooks.on_message = [&](const std::string& message) { messages.push_back(message); };
  hooks.adjust = [](vulkan::Functions& f) {
    f.DestroyDescriptorSetLayout = [](VkDevice, VkDescriptorSetLayout,
                                      const VkAllocationCallbacks*) {};
  };
  {
    const auto backend = vulkan::open_backend(hooks, {.validate = true});
    if (!backend) GTEST_SKIP() << backend.error().message;
  }
  EXPECT_FALSE(messages.empty());
}

class FailingCallTest : public VulkanTest, public ::testing::WithParamInterface<Fault> {};

TEST_P(FailingCallTest, IsReportedWithoutLeaks) {
  constexpr int kTimesMax = 3;
  const Fault& fault = GetParam();
  plan = {};
  EXPECT_EQ(run(fault), "");
  const int calls = plan.calls;
  if (calls == 0 && fault.needs_more) GTEST_SKIP() << "not called on this machine";
  EXPECT_GT(calls, 0) << "never called: use() must exercise this function";
  std::vector<int> times;
  for (int i = 1; i <= std::min(calls, kTimesMax); ++i) times.push_back(i);
  if (calls > kTimesMax) times.push_back(calls);
  for (const int time : times) {
    // A lost device stays lost.
    plan = {.fail_at = time, .stays = true, .result = VK_ERROR_DEVICE_LOST};
    std::string said = run(fault);
    EXPECT_NE(said.find("VK_ERROR_DEVICE_LOST"), std::string::npos)
        << "call " << time << ": " << said;
    // The next try, with a smaller block, may find memory; then all results must be right.
    plan = {.fail_at = time, .stays = false, .result = VK_ERROR_OUT_OF_DEVICE_MEMORY};
    said = run(fault);
    EXPECT_TRUE(said.empty() || said.find("VK_ERROR_OUT_OF_DEVICE_MEMORY") != std::string::npos)
        << "call " << time << ": " << said;
  }
  plan = {};
}

INSTANTIATE_TEST_SUITE_P(Calls, FailingCallTest, ::testing::ValuesIn(kFaults),
                         [](const auto& one) { return std::string(one.param.name); });

// One drafter's gathered work may run in another's turn; if it is lost then, its owner also
// receives the error.
TEST_F(VulkanFaultTest, FailedSubmissionFailsEveryLaterRead) {
  const auto backend = open_tapped<&vulkan::Functions::QueueSubmit>();
  ASSERT_TRUE(backend) << backend.error().message;
  const OwnedMatrix x = matrix_of(**backend, 2, 64, random_floats(1, 128));
  const OwnedMatrix y(**backend, 2, 8);
  const TestWeight w(**backend, DType::f32, 8, 64, random_floats(2, 8 * 64));
  (*backend)->matmul({.x = x.all(), .weight = w.weight, .bias = {}, .y = y.all()});
  plan = {.fail_at = 1, .result = VK_ERROR_OUT_OF_DEVICE_MEMORY};
  EXPECT_THROW(values_of(**backend, x.all()), DeviceError);
  EXPECT_THROW(values_of(**backend, y.all()), DeviceError);
  plan = {};
}

TEST_F(VulkanFaultTest, RecoversAfterMemoryShortage) {
  const auto backend = open_tapped<&vulkan::Functions::AllocateMemory>();
  ASSERT_TRUE(backend) << backend.error().message;
  plan = {.fail_at = 1, .stays = true, .result = VK_ERROR_OUT_OF_DEVICE_MEMORY};
  EXPECT_THROW((*backend)->allocate(std::uint64_t{100} << 20), DeviceError);
  plan = {};
  use(**backend);
}

}  // namespace
}  // namespace edgedraft::testing
