#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstring>
#include <functional>
#include <iosfwd>
#include <limits>
#include <memory>
#include <optional>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "client/vulkan/vulkan_backend.h"
#include "kernels/cpu/ops.h"
#include "shared/base/random.h"
#include "shared/runtime/backend.h"
#include "shared/runtime/cpu_backend.h"
#include "shared/runtime/layer.h"
#include "tests/support/read_only_blocks.h"
#include "tests/support/reference_backend.h"
#include "tests/support/skip.h"

namespace edgedraft::testing {
using namespace client;

// One backend to test. `open` returns null, and the test skips, if the machine lacks it.
struct BackendFactory {
  std::string name;
  std::function<std::unique_ptr<Backend>()> open;
  std::string need = {};  // named in the skip message; empty: the backend's name
};
// Names the case in test lists.
inline void PrintTo(const BackendFactory& factory, std::ostream* out) {
  *out << factory.name;
}

// The CPU backend for every instruction set of this machine.
inline std::vector<BackendFactory> cpu_backends(std::uint32_t threads) {
  std::vector<BackendFactory> factories;
  for (const auto* kernels = cpu::available_kernels(); *kernels != nullptr; ++kernels) {
    factories.push_back({(*kernels)->name, [kernels, threads] {
                           return make_cpu_backend_with(**kernels, {.threads = threads});
                         }});
  }
  return factories;
}

inline std::vector<VulkanDevice> usable_vulkan_devices() {
  std::vector<VulkanDevice> devices = list_vulkan_devices();
  std::erase_if(devices, [](const VulkanDevice& device) { return !device.unusable.empty(); });
  return devices;
}

inline bool has_features(const VulkanDevice& device, const VulkanFeatures& wanted) {
  const VulkanFeatures& there = device.features;
  return (there.narrow_storage || !wanted.narrow_storage) && (there.float16 || !wanted.float16) &&
         (there.integer_dot || !wanted.integer_dot) && (there.subgroups || !wanted.subgroups);
}

// True if a backend failed to open because the validation layer is not installed.
inline bool lacks_validation_layer(const Error& error) {
  return error.message.find("vulkan-validationlayers") != std::string::npos;
}

// The first Vulkan device, under the validation layer if that is installed; a message of the layer
// fails the next call that waits. Without `features` it uses those that a program would. Returns
// null if no usable device has them, and throws if such a device fails to open.
inline std::unique_ptr<Backend> open_vulkan(const std::optional<VulkanFeatures>& features = {}) {
  for (const VulkanDevice& device : usable_vulkan_devices()) {
    if (features && !has_features(device, *features)) continue;
    VulkanBackendOptions options{.device = device.index, .validate = true, .features = features};
    auto backend = make_vulkan_backend(options);
    if (!backend && lacks_validation_layer(backend.error())) {
      options.validate = false;
      backend = make_vulkan_backend(options);
    }
    if (!backend) throw std::runtime_error(backend.error().message);
    return std::move(*backend);
  }
  return nullptr;
}

// The Vulkan backend with each feature alone, with none, and with all.
inline std::vector<BackendFactory> vulkan_feature_backends() {
  const std::pair<const char*, VulkanFeatures> all[] = {
      {"no_feature", {}},
      {"narrow_storage", {.narrow_storage = true}},
      {"float16", {.float16 = true}},
      {"integer_dot", {.integer_dot = true}},
      {"subgroups", {.subgroups = true}},
      {"all_features",
       {.narrow_storage = true, .float16 = true, .integer_dot = true, .subgroups = true}},
  };
  std::vector<BackendFactory> factories;
  for (const auto& [name, features] : all) {
    factories.push_back(
        {std::string("vulkan_") + name, [f = features] { return open_vulkan(f); }, "vulkan"});
  }
  return factories;
}

// Backends of other devices; a source file per backend here adds its factories before main().
inline std::vector<BackendFactory>& device_backends() {
  static std::vector<BackendFactory> factories;
  return factories;
}
struct AddDeviceBackends {
  explicit AddDeviceBackends(const std::vector<BackendFactory>& factories) {
    device_backends().insert(device_backends().end(), factories.begin(), factories.end());
  }
};

// Every backend of this program.
inline std::vector<BackendFactory> all_backends() {
  std::vector<BackendFactory> factories = cpu_backends(1);
  factories.push_back({"reference", make_reference_backend});
  factories.push_back({"vulkan", [] { return open_vulkan(); }});
  factories.insert(factories.end(), device_backends().begin(), device_backends().end());
  return factories;
}

// Backends that a server computes on.
inline std::vector<BackendFactory> server_backends() {
  std::vector<BackendFactory> factories{{"cpu", [] { return make_cpu_backend({.threads = 1}); }}};
  factories.insert(factories.end(), device_backends().begin(), device_backends().end());
  return factories;
}

// Backends for drafting, on a device or beside the target.
inline std::vector<BackendFactory> drafting_backends() {
  std::vector<BackendFactory> factories = server_backends();
  factories.push_back({"vulkan", [] { return open_vulkan(); }});
  return factories;
}

class OpTest : public ::testing::TestWithParam<BackendFactory> {
 protected:
  void SetUp() override {
    const BackendFactory& factory = GetParam();
    backend_ = factory.open();
    if (backend_) return;
    if (factory.need == "vulkan" && !usable_vulkan_devices().empty()) {
      GTEST_SKIP() << factory.name << ": no device supports this feature";
    }
    EDGEDRAFT_SKIP_WITHOUT(factory.need.empty() ? factory.name : factory.need,
                           "not on this machine");
  }
  Backend& backend() { return *backend_; }

 private:
  std::unique_ptr<Backend> backend_;
};

inline std::string backend_name(const ::testing::TestParamInfo<BackendFactory>& info) {
  return info.param.name;
}

#define EDGEDRAFT_FOR_ALL_BACKENDS(suite) \
  INSTANTIATE_TEST_SUITE_P(Backends, suite, ::testing::ValuesIn(all_backends()), backend_name)
// For operations with weights, in addition to the line above.
#define EDGEDRAFT_FOR_VULKAN_FEATURES(suite)                                                      \
  INSTANTIATE_TEST_SUITE_P(VulkanFeatures, suite, ::testing::ValuesIn(vulkan_feature_backends()), \
                           backend_name)
#define EDGEDRAFT_FOR_CPU_BACKENDS(suite, threads)                                      \
  INSTANTIATE_TEST_SUITE_P(Backends, suite, ::testing::ValuesIn(cpu_backends(threads)), \
                           backend_name)

// --- numbers ---

using Floats = std::vector<float>;

// Uniform in [-1, 1).
inline Floats random_floats(std::uint64_t seed, std::size_t count) {
  Random random(seed);
  Floats values(count);
  for (float& value : values) value = static_cast<float>(2.0 * random.uniform() - 1.0);
  return values;
}

// A matrix on a backend that holds `values`.
inline OwnedMatrix matrix_of(Backend& backend, std::uint32_t rows, std::uint32_t cols,
                             std::span<const float> values) {
  OwnedMatrix matrix(backend, rows, cols);
  backend.write(matrix.all(), values);
  return matrix;
}

inline Floats values_of(Backend& backend, const Matrix& matrix) {
  Floats values(std::size_t{matrix.rows} * matrix.cols);
  backend.read(matrix, values);
  return values;
}

// Ancestor masks of random trees; row r's mask ends with r.
inline std::vector<AncestorMask> random_tree(std::uint64_t seed, std::uint32_t rows) {
  Random random(seed);
  std::vector<AncestorMask> masks(rows);
  for (std::uint32_t r = 0; r < rows; ++r) {
    if (r > 0) masks[r] = masks[random.below(4) == 0 ? random.below(r) : r - 1];
    masks[r].set(r);
  }
  return masks;
}

// Result of attention, one row per query.
inline Floats attend(Backend& backend, const HeadShape& heads, const Matrix& q,
                     const CacheView& keys, const CacheView& values, std::uint32_t prefix,
                     std::span<const AncestorMask> masks) {
  const OwnedMatrix y(backend, q.rows, heads.query_cols());
  backend.attention({.q = q,
                     .keys = keys,
                     .values = values,
                     .prefix = prefix,
                     .masks = masks,
                     .heads = heads,
                     .y = y.all(),
                     .scale = heads.score_scale()});
  return values_of(backend, y.all());
}

// A weight on a backend, with its bytes and decoded values. Types without an encoder have random
// blocks, seeded by their count.
struct TestWeight {
  TestWeight(Backend& backend, DType type, std::uint32_t rows, std::uint32_t cols,
             std::span<const float> numbers)
      : TestWeight(backend, type, rows, cols, quantized(type, rows, cols, numbers)) {}

  TestWeight(Backend& backend, DType type, std::uint32_t rows, std::uint32_t cols, Bytes file)
      : decoded(std::size_t{rows} * cols), bytes(std::move(file)) {
    const std::size_t stride = bytes.size() / rows;
    for (std::size_t r = 0; r < rows; ++r) {
      dequantize_row(type, std::span(bytes).subspan(r * stride, stride),
                     std::span(decoded).subspan(r * cols, cols));
    }
    buffer = backend.upload_matrix({.type = type, .rows = rows, .cols = cols, .bytes = bytes});
    weight = {.buffer = buffer.get(), .offset_bytes = 0, .type = type, .rows = rows, .cols = cols};
    table_buffer = backend.upload_table({.type = type, .rows = rows, .cols = cols, .bytes = bytes});
    table = weight;
    table.buffer = table_buffer.get();
  }

  Floats decoded;
  Bytes bytes;
  std::unique_ptr<Buffer> buffer;
  std::unique_ptr<Buffer> table_buffer;
  Weight weight;  // for matmul
  Weight table;   // for everything else

 private:
  static Bytes quantized(DType type, std::uint32_t rows, std::uint32_t cols,
                         std::span<const float> numbers) {
    const auto stride = static_cast<std::size_t>(*row_bytes(type, cols));
    Bytes bytes(rows * stride);
    if (!is_writable(type)) {
      Random random(numbers.size());
      for (std::byte& byte : bytes) byte = static_cast<std::byte>(random());
      test::set_scales(type, 1.0f, bytes);
      return bytes;
    }
    for (std::size_t r = 0; r < rows; ++r) {
      quantize_row(type, numbers.subspan(r * cols, cols),
                   std::span(bytes).subspan(r * stride, stride));
    }
    return bytes;
  }
};

// A stack of matrices on a backend, with its decoded values.
struct TestStack {
  TestStack(Backend& backend, DType type, std::uint32_t experts, std::uint32_t outputs,
            std::uint32_t inputs)
      : matrices(backend, type, experts * outputs, inputs,
                 random_floats(inputs + experts, std::size_t{experts} * outputs * inputs)),
        buffer(backend.upload_matrix({.type = type,
                                      .rows = experts * outputs,
                                      .cols = inputs,
                                      .bytes = matrices.bytes,
                                      .experts = experts})),
        weight(matrices.weight) {
    weight.buffer = buffer.get();
    weight.experts = experts;
  }

  TestWeight matrices;
  std::unique_ptr<Buffer> buffer;
  Weight weight;
};

// True if a backend rounds activations to int8 before multiplying by weights of `type`.
inline bool rounds_activations(const Backend& backend, DType type) {
  if (const auto* vulkan = dynamic_cast<const MeasuredBackend*>(&backend)) {
    return vulkan->features().integer_dot && (type == DType::q8_0 || type == DType::q4_0);
  }
  const bool is_exact = backend.name() == "reference";
  return !is_exact && type != DType::f32 && type != DType::f16 && type != DType::bf16;
}

// An activation rounded as by such a backend, with one scale per group.
struct RoundedActivation {
  double value;
  double scale;
};
inline std::vector<RoundedActivation> rounded_activations(const Backend& backend,
                                                          std::span<const float> row) {
  const std::size_t group_size = backend.name().starts_with("cuda") ? 128 : 32;
  std::vector<RoundedActivation> rounded;
  for (std::size_t first = 0; first < row.size(); first += group_size) {
    const auto group = row.subspan(first, std::min(group_size, row.size() - first));
    float largest = 0.0f;
    for (const float x : group) largest = std::max(largest, std::fabs(x));
    const float inverse = largest != 0.0f ? 127.0f / largest : 0.0f;
    const double scale{largest / 127.0f};
    for (const float x : group)
      rounded.push_back({scale * double{std::nearbyint(x * inverse)}, scale});
  }
  return rounded;
}

// Largest error of a float32 sum of `count` products whose absolute values add up to `magnitude`.
// It is half a unit in the last place per addition, in the worst order, plus a few for later steps.
inline double sum_tolerance(std::size_t count, double magnitude) {
  return (static_cast<double>(count) + 8.0) * 0x1p-24 * magnitude + 1e-37;
}

inline void expect_near(float value, double exact, double tolerance, const std::string& where) {
  EXPECT_LE(std::fabs(double{value} - exact), tolerance)
      << where << ": " << value << ", expected " << exact;
}

// Compares bitwise: +0 differs from -0, and NaN equals itself.
inline bool same_bytes(std::span<const float> a, std::span<const float> b) {
  return a.size() == b.size() && std::memcmp(a.data(), b.data(), a.size_bytes()) == 0;
}

inline const std::vector<std::uint32_t> kAwkwardCounts = {1, 31, 32, 33, 127, 128};

}  // namespace edgedraft::testing
