#include "tests/support/expect.h"
#include "tests/vulkan/vulkan_support.h"

namespace edgedraft::testing {
namespace {

class VulkanBackendTest : public VulkanTest {};

// No features, each feature, and all that the device offers.
std::vector<VulkanFeatures> offered_feature_sets() {
  const auto backend = open_with({});
  const VulkanFeatures has = backend ? (*backend)->device().features : VulkanFeatures{};
  std::vector<VulkanFeatures> sets{{}};
  for (const VulkanFeatures& one :
       {VulkanFeatures{.narrow_storage = has.narrow_storage},
        VulkanFeatures{.float16 = has.float16}, VulkanFeatures{.integer_dot = has.integer_dot},
        VulkanFeatures{.narrow_storage = has.narrow_storage, .float16 = has.float16},
        VulkanFeatures{.subgroups = has.subgroups},
        VulkanFeatures{.narrow_storage = has.narrow_storage,
        .float16 = has.float16,
        .subgroups = has.subgroups},
        has}) {
    if (std::find(sets.begin(), sets.end(), one) == sets.end()) sets.push_back(one);
  }
  return sets;
}

TEST_F(VulkanBackendTest, ListsDevicesThatOpenByIndex) {
  for (const VulkanDevice& device : list_vulkan_devices()) {
    EXPECT_FALSE(device.name.empty());
    EXPECT_FALSE(device.api_version.empty());
    EXPECT_GT(device.memory_bytes, 0u);
    if (!device.unusable.empty()) continue;
    const auto backend = make_vulkan_backend({.device = device.index}).value();
    EXPECT_EQ(backend->name(), "vulkan");
  }
}

TEST_F(VulkanBackendTest, NamesRemedyForMissingDevice) {
  const auto backend = make_vulkan_backend({.device = 1000});
  ASSERT_TRUE(fails_with(backend, Errc::unsupported, "--device cpu"));
}

constexpr DType kSplitTypes[] = {DType::f32,  DType::f16,  DType::q8_0, DType::q4_0,
                                 DType::q6_k, DType::q3_k, DType::mxfp4};

TEST_F(VulkanBackendTest, SplitsTablesLargerThanBinding) {
  constexpr std::uint32_t kInputs = 256;
  constexpr std::uint32_t kOutputs = 203;
  constexpr std::uint32_t kRows = 5;
  for (const DType type : kSplitTypes) {
    std::vector<Floats> products;
    std::vector<Floats> embedded;
    for (const std::uint64_t range_max : {0u, 16384u}) {
      const auto backend = open_with({.storage_range_max = range_max}).value();
      Backend& b = *backend;
      const TestWeight weight(b, type, kOutputs, kInputs, random_floats(1, kOutputs * kInputs));
      const TestWeight bias(b, DType::f32, 1, kOutputs, random_floats(2, kOutputs));
      const OwnedMatrix x = matrix_of(b, kRows, kInputs, random_floats(3, kRows * kInputs));
      const OwnedMatrix y(b, kRows, kOutputs);
      b.matmul({.x = x.all(), .weight = weight.weight, .bias = bias.weight, .y = y.all()});
      products.push_back(values_of(b, y.all()));
      const std::vector<std::uint32_t> tokens = {202, 0, 17, 100, 202};
      b.embed({.table = weight.table, .tokens = tokens, .y = x.all()});
      embedded.push_back(values_of(b, x.all()));
    }
    EXPECT_TRUE(same_bytes(products[0], products[1])) << traits(type).name;
    EXPECT_TRUE(same_bytes(embedded[0], embedded[1])) << traits(type).name;
  }
}

TEST_F(VulkanBackendTest, RecodesTablesLargerThanStagingMemory) {
  constexpr std::uint32_t kCols = 2048;
  constexpr std::uint32_t kRows = 4100;  // over 4 MiB in either coded layout
  const auto backend = open_with({}).value();
  const std::vector<std::uint32_t> tokens = {0, 3589, 3590, 3591, 3592, 3639, 3640, 3641, 4099};
  const auto count = static_cast<std::uint32_t>(tokens.size());
  for (const DType type : {DType::q3_k, DType::mxfp4}) {
    const TestWeight weight(*backend, type, kRows, kCols, Floats{});  // random blocks
    const OwnedMatrix y(*backend, count, kCols);
    backend->embed({.table = weight.table, .tokens = tokens, .y = y.all()});
    const Floats values = values_of(*backend, y.all());
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      const auto row = std::size_t{kCols};
      EXPECT_TRUE(same_bytes(std::span(values).subspan(i * row, row),
                             std::span(weight.decoded).subspan(tokens[i] * row, row)))
          << traits(type).name << " row " << tokens[i];
    }
  }
}

// Also with the division of matmuls for GPUs, which software rasterisers do not use.
TEST_F(VulkanBackendTest, SplitsStacksOfExpertsLargerThanBinding) {
  constexpr std::uint32_t kInputs = 256;
  constexpr std::uint32_t kOutputs = 43;
  constexpr std::uint32_t kRows = 5;
  constexpr std::uint32_t kUsed = 2;
  for (const bool as_gpu : {false, true}) {
    for (const DType type : kSplitTypes) {
      std::vector<Floats> products;
      for (const std::uint64_t range_max : {0u, 16384u}) {
        const auto backend = open_with({.storage_range_max = range_max, .as_gpu = as_gpu}).value();
        Backend& b = *backend;
        const TestStack stack(b, type, 5, kOutputs, kInputs);
        const TestWeight bias(b, DType::f32, 5, kOutputs, random_floats(2, 5 * kOutputs));
        const OwnedMatrix x = matrix_of(b, kRows, kInputs, random_floats(3, kRows * kInputs));
        const OwnedMatrix experts =
            matrix_of(b, kRows, kUsed, Floats{4, 0, 1, 4, 2, 3, 0, 1, 3, 2});
        const OwnedMatrix y(b, kRows * kUsed, kOutputs);
        for (const std::uint32_t rows : {kRows, 1u}) {
          b.expert_matmul({.x = x.rows(rows),
                           .weight = stack.weight,
                           .bias = bias.table,
                           .experts = experts.rows(rows),
                           .y = y.rows(rows * kUsed)});
          products.push_back(values_of(b, y.rows(kUsed)));
          products.push_back(values_of(b, y.all()));
        }
      }
      for (std::size_t i = 0; i < products.size(); ++i) {
        EXPECT_TRUE(same_bytes(products[i], products[i % 2])) << traits(type).name << " " << i;
      }
    }
  }
}

// Software rasterisers split matmuls differently, so the split for GPUs is tested here too.
TEST_F(VulkanBackendTest, SplitsMatmulsForGpuWithSameBitsForAnyRowCount) {
  constexpr std::uint32_t kInputs = 544;
  constexpr std::uint32_t kOutputs = 45;
  constexpr std::uint32_t kRowsMax = 33;
  for (const VulkanFeatures& features : offered_feature_sets()) {
    const auto backend = open_with({.as_gpu = true}, {.features = features}).value();
    Backend& b = *backend;
    Floats x = random_floats(1, kRowsMax * kInputs);
    const OwnedMatrix x_matrix = matrix_of(b, kRowsMax, kInputs, x);
    std::vector<double> rounded;
    for (std::size_t r = 0; r < kRowsMax; ++r) {
      for (const auto& one : rounded_activations(b, std::span(x).subspan(r * kInputs, kInputs))) {
        rounded.push_back(one.value);
      }
    }
    for (const DType type : {DType::f32, DType::f16, DType::bf16, DType::q8_0, DType::q4_0}) {
      const TestWeight w(b, type, kOutputs, kInputs, random_floats(2, kOutputs * kInputs));
      const TestWeight bias(b, DType::f32, 1, kOutputs, random_floats(3, kOutputs));
      Floats widest;
      for (const std::uint32_t rows : {kRowsMax, 1u, 2u, 3u, 4u, 7u, 8u, 9u}) {
        const OwnedMatrix y(b, rows, kOutputs);
        b.matmul({.x = x_matrix.rows(rows), .weight = w.weight, .bias = bias.weight, .y = y.all()});
        const Floats values = values_of(b, y.all());
        if (rows == kRowsMax) widest = values;
        EXPECT_TRUE(same_bytes(values, std::span(widest).first(values.size())))
            << traits(type).name << ", " << rows << " rows";
      }
      const bool rounds = rounds_activations(b, type);
      for (std::size_t i = 0; i < widest.size(); ++i) {
        double exact{bias.decoded[i % kOutputs]};
        double magnitude = std::fabs(exact);
        for (std::size_t k = 0; k < kInputs; ++k) {
          const std::size_t at = i / kOutputs * kInputs + k;
          const double activation = rounds ? rounded[at] : double{x[at]};
          const double product = activation * double{w.decoded[i % kOutputs * kInputs + k]};
          exact += product;
          magnitude += std::fabs(product);
        }
        expect_near(widest[i], exact, sum_tolerance(kInputs, magnitude), "product");
      }
    }
  }
}

// Narrow matmuls are split among more workgroups, each with fewer outputs.
TEST_F(VulkanBackendTest, OutputsHaveSameBitsForWeightsOfAnySize) {
  constexpr std::uint32_t kInputs = 64;
  constexpr std::uint32_t kRows = 2;
  constexpr std::uint32_t kFewest = 45;
  const auto backend = open_with({.as_gpu = true}, {.features = VulkanFeatures{}}).value();
  Backend& b = *backend;
  const OwnedMatrix x = matrix_of(b, kRows, kInputs, random_floats(1, kRows * kInputs));
  for (const DType type : {DType::f32, DType::q4_0}) {
    Floats first;
    for (const std::uint32_t outputs : {kFewest, 5000u, 9000u}) {
      const TestWeight w(b, type, outputs, kInputs, random_floats(2, outputs * kInputs));
      const OwnedMatrix y(b, kRows, outputs);
      b.matmul({.x = x.all(), .weight = w.weight, .bias = {}, .y = y.all()});
      const Floats values = values_of(b, y.all().column_range(0, kFewest));
      if (outputs == kFewest) first = values;
      EXPECT_TRUE(same_bytes(values, first)) << traits(type).name << ", " << outputs;
    }
  }
}

// Optional features other than rounded activations change how weights are read, not the results.
TEST_F(VulkanBackendTest, NonRoundingFeaturesKeepEveryBit) {
  constexpr std::uint32_t kInputs = 1280;
  constexpr std::uint32_t kOutputs = 35;
  const std::vector<std::uint32_t> tokens = {34, 0, 17};
  for (const bool as_gpu : {false, true}) {
    std::vector<std::vector<Floats>> results;  // per feature set: matmuls and rows
    for (const VulkanFeatures& features : offered_feature_sets()) {
      if (features.integer_dot) continue;
      const auto backend = open_with({.as_gpu = as_gpu}, {.features = features}).value();
      Backend& b = *backend;
      const OwnedMatrix x = matrix_of(b, 3, kInputs, random_floats(3, 3 * kInputs));
      const OwnedMatrix y(b, 3, kOutputs);
      std::vector<Floats>& mine = results.emplace_back();
      for (const DType type : kDTypes) {
        const TestWeight w(b, type, kOutputs, kInputs, random_floats(1, kOutputs * kInputs));
        b.matmul({.x = x.all(), .weight = w.weight, .bias = {}, .y = y.all()});
        mine.push_back(values_of(b, y.all()));
        b.embed({.table = w.table, .tokens = tokens, .y = x.all()});
        mine.push_back(values_of(b, x.all()));
      }
    }
    for (const auto& mine : results) {
      for (std::size_t i = 0; i < mine.size(); ++i) {
        EXPECT_TRUE(same_bytes(mine[i], results[0][i])) << traits(kDTypes[i / 2]).name;
      }
    }
  }
}

// Lanes are reduced in one order, with subgroups and without.
TEST_F(VulkanBackendTest, SubgroupsKeepEveryBit) {
  std::vector<std::vector<Floats>> results;
  for (const bool subgroups : {false, true}) {
    const auto backend = open_with({}, {.features = VulkanFeatures{.subgroups = subgroups}});
    if (!backend && subgroups) GTEST_SKIP() << backend.error().message;
    ASSERT_TRUE(backend) << backend.error().message;
    Backend& b = **backend;
    std::vector<Floats>& mine = results.emplace_back();
    for (const std::uint32_t cols : {1u, 33u, 1029u, 5000u}) {
      const OwnedMatrix x = matrix_of(b, 3, cols, random_floats(cols, 3 * cols));
      const TestWeight norm(b, DType::f32, 1, cols, random_floats(2, cols));
      const std::uint32_t k = std::min(cols, 20u);
      std::vector<std::uint32_t> tokens(3 * k);
      Floats log_probs(3 * k);
      b.top_k({.logits = x.all(), .k = k, .tokens = tokens, .log_probs = log_probs});
      mine.push_back(log_probs);
      mine.emplace_back(tokens.begin(), tokens.end());
      b.argmax({.logits = x.all(), .tokens = std::span(tokens).first(3)});
      mine.emplace_back(tokens.begin(), tokens.begin() + 3);
      b.rms_norm({.x = x.all(), .weight = norm.table, .y = x.all(), .epsilon = 1e-5f});
      mine.push_back(values_of(b, x.all()));
    }
    for (const HeadShape heads : {HeadShape{8, 2, 64}, HeadShape{3, 1, 34}, HeadShape{2, 2, 512}}) {
      for (const auto& [prefix, window] :
           {std::pair{7u, 0u}, std::pair{300u, 0u}, std::pair{300u, 170u}}) {
        constexpr std::uint32_t kRows = 5;
        const std::uint32_t slots = prefix + kRows;
        const OwnedMatrix q =
            matrix_of(b, kRows, heads.query_cols(), random_floats(1, kRows * heads.query_cols()));
        const OwnedMatrix keys =
            matrix_of(b, slots, heads.kv_cols(), random_floats(2, slots * heads.kv_cols()));
        const auto masks = random_tree(3, kRows);
        const std::vector<std::uint32_t> positions(kRows, prefix);
        b.attention({.q = q.all(),
                     .keys = keys.all(),
                     .values = keys.all(),
                     .prefix = prefix,
                     .masks = masks,
                     .heads = heads,
                     .y = q.all(),
                     .scale = heads.score_scale(),
                     .window = window,
                     .positions = positions});
        mine.push_back(values_of(b, q.all()));
      }
    }
  }
  for (std::size_t i = 0; i < results[0].size(); ++i) {
    EXPECT_TRUE(same_bytes(results[0][i], results[1][i])) << i;
  }
}

TEST_F(VulkanBackendTest, WorksWithoutMissingDeviceFeatures) {
  vulkan::Hooks hooks;
  hooks.adjust = [](vulkan::Functions& f) {
    f.GetPhysicalDeviceFeatures2 = [](VkPhysicalDevice, VkPhysicalDeviceFeatures2*) {};
  };
  const auto backend = open_with(hooks).value();
  EXPECT_EQ(backend->features(), VulkanFeatures{});
  Backend& b = *backend;
  const TestWeight w(b, DType::q8_0, 2, 32, Floats(64, 1.0f));
  const OwnedMatrix x = matrix_of(b, 1, 32, Floats(32, 1.0f));
  const OwnedMatrix y(b, 1, 2);
  b.matmul({.x = x.all(), .weight = w.weight, .bias = {}, .y = y.all()});
  for (const float value : values_of(b, y.all())) EXPECT_NEAR(value, 32.0f, 0.1f);

  for (const VulkanFeatures& features :
       {VulkanFeatures{.narrow_storage = true}, VulkanFeatures{.float16 = true},
        VulkanFeatures{.integer_dot = true}, VulkanFeatures{.subgroups = true}}) {
    const auto refused = open_with(hooks, {.features = features});
    EXPECT_TRUE(fails_with(refused, Errc::unsupported, "does not support"));
  }
}

// Vulkan 1.2 has integer dot products only as an extension.
TEST_F(VulkanBackendTest, FindsIntegerDotProductsOnVulkan12) {
  static PFN_vkGetPhysicalDeviceProperties2 properties = nullptr;
  const auto says_1_2 = [](VkPhysicalDevice device, VkPhysicalDeviceProperties2* to) {
    properties(device, to);
    to->properties.apiVersion = VK_API_VERSION_1_2;
  };
  vulkan::Hooks hooks;
  hooks.adjust = [&](vulkan::Functions& f) {
    intercept(f.GetPhysicalDeviceProperties2, properties, says_1_2);
  };
  const auto backend = open_with(hooks, {.features = VulkanFeatures{.integer_dot = true}});
  if (!backend) GTEST_SKIP() << backend.error().message;
  Backend& b = **backend;
  const TestWeight w(b, DType::q8_0, 1, 32, Floats(32, 1.0f));
  const OwnedMatrix x = matrix_of(b, 1, 32, Floats(32, 1.0f));
  const OwnedMatrix y(b, 1, 1);
  b.matmul({.x = x.all(), .weight = w.weight, .bias = {}, .y = y.all()});
  EXPECT_NEAR(values_of(b, y.all())[0], 32.0f, 0.1f);
}

TEST_F(VulkanBackendTest, RefusesMatrixTooLargeToBind) {
  const auto backend = open_with({.storage_range_max = 16384}).value();
  const OwnedMatrix x(*backend, 100, 100);
  EXPECT_THROW(
      backend->gate({.gate = x.all(), .up = x.all(), .y = x.all(), .activation = Activation::silu}),
      DeviceError);
}

// Rows of logits and long prompts' activations exceed the inline limit of command buffers.
TEST_F(VulkanBackendTest, OrdersTransfersOfAnySizeWithOperations) {
  const auto backend = open_with({}).value();
  for (const std::uint32_t cols : {3u, 1000u, 9001u}) {
    constexpr std::uint32_t kRows = 300;
    const Floats first = random_floats(1, kRows * cols);
    const Floats second = random_floats(2, kRows * (cols - 2));
    const OwnedMatrix a = matrix_of(*backend, kRows, cols, first);
    const OwnedMatrix b(*backend, kRows, cols);
    backend->store({.x = a.all(), .cache = b.all(), .first = 0});
    backend->write(a.all().column_range(1, cols - 2), second);
    EXPECT_TRUE(same_bytes(values_of(*backend, b.all()), first)) << cols;
    EXPECT_TRUE(same_bytes(values_of(*backend, a.all().column_range(1, cols - 2)), second)) << cols;
  }
}

TEST_F(VulkanBackendTest, PacksManyBuffersIntoFewAllocations) {
  static PFN_vkAllocateMemory allocate = nullptr;
  static int allocations = 0;
  allocations = 0;
  const auto count = [](VkDevice device, const VkMemoryAllocateInfo* info,
                        const VkAllocationCallbacks* callbacks, VkDeviceMemory* memory) {
    ++allocations;
    return allocate(device, info, callbacks, memory);
  };
  vulkan::Hooks hooks;
  hooks.adjust = [&](vulkan::Functions& f) { intercept(f.AllocateMemory, allocate, count); };
  const auto backend = open_with(hooks).value();
  for (int round = 0; round < 20; ++round) {
    std::vector<OwnedMatrix> matrices;
    for (std::uint32_t i = 0; i < 50; ++i) matrices.emplace_back(*backend, 1 + i, 1000);
    values_of(*backend, matrices.back().all());
  }
  EXPECT_LE(allocations, 4);  // staging, call buffers, and the matrices' own
}

// Pretends that the device has its own memory, partly visible to the host, and host memory.
// Underneath, all of it is the same kind.
struct MemoryKinds {
  static constexpr std::uint32_t kDevice = 0;
  static constexpr std::uint32_t kHost = 1;
  static constexpr std::uint32_t kBoth = 2;

  std::vector<std::uint32_t> taken;
  bool is_both_used_up = false;
  std::uint32_t real = 0;
  PFN_vkGetPhysicalDeviceMemoryProperties properties = nullptr;
  PFN_vkGetBufferMemoryRequirements requirements = nullptr;
  PFN_vkAllocateMemory allocate = nullptr;
};
MemoryKinds kinds;

void with_three_kinds_of_memory(vulkan::Functions& f) {
  if (f.AllocateMemory == nullptr) return;
  kinds.properties = f.GetPhysicalDeviceMemoryProperties;
  kinds.requirements = f.GetBufferMemoryRequirements;
  kinds.allocate = f.AllocateMemory;
  f.GetPhysicalDeviceMemoryProperties = [](VkPhysicalDevice device,
                                           VkPhysicalDeviceMemoryProperties* memory) {
    constexpr VkMemoryPropertyFlags kSeen =
        VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;
    kinds.properties(device, memory);
    while ((memory->memoryTypes[kinds.real].propertyFlags & kSeen) != kSeen) ++kinds.real;
    const std::uint32_t heap = memory->memoryTypes[kinds.real].heapIndex;
    memory->memoryTypeCount = 3;
    memory->memoryTypes[MemoryKinds::kDevice] = {VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, heap};
    memory->memoryTypes[MemoryKinds::kHost] = {kSeen | VK_MEMORY_PROPERTY_HOST_CACHED_BIT, heap};
    memory->memoryTypes[MemoryKinds::kBoth] = {kSeen | VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT, heap};
  };
  f.GetBufferMemoryRequirements = [](VkDevice device, VkBuffer buffer,
                                     VkMemoryRequirements* needs) {
    kinds.requirements(device, buffer, needs);
    needs->memoryTypeBits = 7;
  };
  f.AllocateMemory = [](VkDevice device, const VkMemoryAllocateInfo* info,
                        const VkAllocationCallbacks* callbacks, VkDeviceMemory* memory) {
    const bool is_both = info->memoryTypeIndex == MemoryKinds::kBoth;
    if (is_both && kinds.is_both_used_up) return VK_ERROR_OUT_OF_DEVICE_MEMORY;
    kinds.taken.push_back(info->memoryTypeIndex);
    VkMemoryAllocateInfo real = *info;
    real.memoryTypeIndex = kinds.real;
    return kinds.allocate(device, &real, callbacks, memory);
  };
}

TEST_F(VulkanBackendTest, WritesCallsToHostVisibleDeviceMemory) {
  vulkan::Hooks hooks;
  hooks.adjust = with_three_kinds_of_memory;
  for (const bool is_used_up : {false, true}) {
    kinds = {.is_both_used_up = is_used_up};
    const auto backend = open_with(hooks).value();
    const Floats rows = random_floats(1, 100);
    const OwnedMatrix x = matrix_of(*backend, 10, 10, rows);
    EXPECT_TRUE(same_bytes(values_of(*backend, x.all()), rows));
    const auto count = [](std::uint32_t kind) {
      return std::count(kinds.taken.begin(), kinds.taken.end(), kind);
    };
    EXPECT_EQ(count(MemoryKinds::kBoth), is_used_up ? 0 : 1);
    EXPECT_EQ(count(MemoryKinds::kHost), is_used_up ? 3 : 2);  // staging, results
    EXPECT_EQ(count(MemoryKinds::kDevice), 1);
  }
}

TEST_F(VulkanBackendTest, ZerosReusedMemory) {
  const auto backend = open_with({}).value();
  for (int round = 0; round < 3; ++round) {
    const OwnedMatrix matrix(*backend, 10, 100);
    EXPECT_EQ(values_of(*backend, matrix.all()), Floats(1000, 0.0f));
    backend->write(matrix.all(), Floats(1000, 1.0f));
  }
}

// A large buffer has its own memory, which is freed with it although commands referenced it.
TEST_F(VulkanBackendTest, FreesLargeBuffersAfterUse) {
  const auto backend = open_with({}).value();
  const Floats rows = random_floats(1, 100);
  for (int round = 0; round < 3; ++round) {
    const OwnedMatrix x = matrix_of(*backend, 1, 100, rows);
    const OwnedMatrix large(*backend, 200'000, 100);
    backend->store({.x = x.all(), .cache = large.all(), .first = 199'999});
    EXPECT_TRUE(same_bytes(values_of(*backend, large.all().row_range(199'999, 1)), rows));
  }
}

// A device that works on a single list for long appears to hang and delays its other work. This
// only enqueues the multiplication.
TEST_F(VulkanBackendTest, SplitsLargeWorkIntoSeveralLists) {
  constexpr std::uint32_t kSize = 4096;
  constexpr int kProducts = 20;  // with 256 rows each: two and a half lists
  vulkan::Hooks hooks;
  hooks.adjust = [](vulkan::Functions& f) {
    f.CmdDispatch = [](VkCommandBuffer, std::uint32_t, std::uint32_t, std::uint32_t) {};
  };
  const auto backend = open_with(hooks).value();
  const Bytes zeros(kSize * static_cast<std::size_t>(*row_bytes(DType::q4_0, kSize)));
  const auto buffer =
      backend->upload_matrix({.type = DType::q4_0, .rows = kSize, .cols = kSize, .bytes = zeros});
  const Weight weight{.buffer = buffer.get(), .type = DType::q4_0, .rows = kSize, .cols = kSize};
  const OwnedMatrix x(*backend, 256, kSize);
  const OwnedMatrix y(*backend, 256, kSize);
  const auto lists_of = [&](std::uint32_t rows) {
    backend->wait();
    const std::uint64_t before = backend->counts().runs;
    for (int i = 0; i < kProducts; ++i) {
      backend->matmul({.x = x.rows(rows), .weight = weight, .bias = {}, .y = y.rows(rows)});
    }
    backend->wait();
    return backend->counts().runs - before;
  };
  EXPECT_EQ(lists_of(1), 1u);
  EXPECT_GT(lists_of(256), 1u);
}

TEST_F(VulkanBackendTest, MeasuresOperationsByDeviceClock) {
  const auto backend = open_with({}).value();
  if (!backend->device().timestamps) GTEST_SKIP() << "the device has no timestamps";
  const OwnedMatrix x = matrix_of(*backend, 64, 1000, random_floats(1, 64'000));
  values_of(*backend, x.rows(1));
  backend->set_timing(MeasuredBackend::Timing::each);
  backend->gate({.gate = x.all(), .up = x.all(), .y = x.all(), .activation = Activation::silu});
  values_of(*backend, x.rows(1));
  const auto times = backend->take_times();
  ASSERT_EQ(times.size(), 1u);
  EXPECT_EQ(times[0].name, "gate");
  EXPECT_GE(times[0].seconds, 0.0);
  EXPECT_LT(times[0].seconds, 100.0);
}

}  // namespace
}  // namespace edgedraft::testing
