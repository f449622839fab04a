#include <gtest/gtest.h>

#include <cmath>

#include "kernels/cuda/check/support.h"
#include "kernels/cuda/weight_types.cuh"
#include "tests/runtime/op_test.h"

namespace edgedraft::testing {
namespace {

constexpr std::uint32_t kBlock = 32;  // inputs that an int8 dot product sums
constexpr std::uint32_t kWarps = 8;   // share the inputs of an output

struct Int8Row {
  std::vector<std::int32_t> values;
  Floats scales;  // per group
};

Int8Row rounded(std::span<const float> x) {
  Int8Row row{std::vector<std::int32_t>(x.size()), {}};
  for (std::size_t first = 0; first < x.size(); first += cuda::kGroup) {
    const std::size_t end = std::min<std::size_t>(first + cuda::kGroup, x.size());
    float largest = 0.0f;
    for (std::size_t i = first; i < end; ++i) largest = std::max(largest, std::fabs(x[i]));
    const float inverse = 127.0f / largest;
    for (std::size_t i = first; i < end; ++i) {
      row.values[i] = static_cast<std::int32_t>(std::rint(x[i] * inverse));
    }
    row.scales.push_back(largest / 127.0f);
  }
  return row;
}

// The specified result: exact integer sums over 32 inputs, or over 16 if a type has a scale or a
// minimum per group. float32 sums follow in a fixed order for any memory layout.
float product(DType type, const std::byte* weight, const Int8Row& x) {
  const auto inputs = static_cast<std::uint32_t>(x.values.size());
  const cuda::Packing packing = cuda::packing(type);
  float sums[kWarps] = {};
  for (std::uint32_t group = 0; group < x.scales.size(); ++group) {
    float of_group = 0.0f;
    const std::uint32_t first = group * cuda::kGroup;
    for (std::uint32_t k = first; k < std::min(first + cuda::kGroup, inputs); k += kBlock) {
      std::int32_t products[2] = {};
      std::int32_t values[2] = {};
      for (std::uint32_t i = 0; i < kBlock; ++i) {
        products[i / 16] += cuda::element(type, weight, k + i).level * x.values[k + i];
        values[i / 16] += x.values[k + i];
      }
      const cuda::Element low = cuda::element(type, weight, k);
      const cuda::Element high = cuda::element(type, weight, k + 16);
      if (packing.has_minimum || packing.is_k) {
        of_group = std::fma(scale_of(type, low), static_cast<float>(products[0]), of_group);
        of_group = std::fma(scale_of(type, high), static_cast<float>(products[1]), of_group);
        if (packing.has_halves) {
          of_group = std::fma(-minimum_of(low), static_cast<float>(values[0]), of_group);
          of_group = std::fma(-minimum_of(high), static_cast<float>(values[1]), of_group);
        } else {
          const std::int32_t all = values[0] + values[1];
          of_group = std::fma(-minimum_of(low), static_cast<float>(all), of_group);
        }
      } else {
        of_group =
            std::fma(scale_of(type, low), static_cast<float>(products[0] + products[1]), of_group);
      }
    }
    float& sum = sums[group % kWarps];
    const float unit = is_coded(type) ? code_table(type).unit : 1.0f;
    sum = std::fma(x.scales[group] * unit, of_group, sum);
  }
  float total = 0.0f;
  for (const float sum : sums) total += sum;
  return total;
}

Floats multiplied(DType type, const std::vector<std::byte>& weight, const Floats& x,
                  std::uint32_t rows, std::uint32_t inputs, std::uint32_t outputs) {
  const std::size_t groups = std::size_t{rows} * cuda::groups(inputs);
  const cuda::check::Array<std::byte> packed(cuda::packed_layout(type, outputs, inputs).total);
  const cuda::check::Array<std::byte> values(groups * cuda::kGroup);
  const cuda::check::Array<float> scales(groups);
  const cuda::check::Array<float> sums(groups * 4);
  Floats y(std::size_t{rows} * outputs);
  EXPECT_EQ(cuda::pack_weight({type, weight.data(), outputs, inputs, packed.data()}, nullptr),
            cudaSuccess);
  EXPECT_EQ(
      cuda::quantize({{x.data(), inputs}, rows, inputs, values.data(), scales.data(), sums.data()},
                     nullptr),
      cudaSuccess);
  EXPECT_EQ(cuda::int8_matmul({values.data(),
                               scales.data(),
                               sums.data(),
                               type,
                               cuda::ProductKernel::by_shape,
                               rows,
                               inputs,
                               1,
                               {},
                               {{packed.data(), nullptr, {y.data(), outputs}, outputs, false}}},
                              nullptr),
            cudaSuccess);
  return y;
}

// Blocks of random bits: they include all levels and scales of a type, unlike a quantizer's output.
TEST(Int8ProductsTest, MatchSpecifiedOrderBitForBit) {
  for (const DType type : kDTypes) {
    if (is_float(type)) continue;
    for (const std::uint32_t inputs : {256u, 768u, 2304u, 1184u}) {
      if (inputs % traits(type).block_count != 0) continue;
      constexpr std::uint32_t kOutputs = 37;
      const auto weight = cuda::check::random_weight(type, kOutputs, inputs, inputs);
      for (const std::uint32_t rows : {1u, 9u, 35u}) {
        const Floats x = random_floats(rows, std::size_t{rows} * inputs);
        const Floats y = multiplied(type, weight, x, rows, inputs, kOutputs);
        for (std::uint32_t r = 0; r < rows; ++r) {
          const Int8Row row = rounded(std::span(x).subspan(std::size_t{r} * inputs, inputs));
          for (std::uint32_t o = 0; o < kOutputs; ++o) {
            ASSERT_EQ(y[r * kOutputs + o],
                      product(type, weight.data() + o * cuda::row_bytes(type, inputs), row))
                << traits(type).name << ", " << inputs << " inputs, row " << r << " of " << rows
                << ", output " << o;
          }
        }
      }
    }
  }
}

// Device memory of a large weight, compared with its file.
TEST(PackedLayoutTest, TakesLittleMoreThanFile) {
  constexpr std::uint32_t kRows = 4096;
  constexpr std::uint32_t kCols = 14336;
  for (const DType type : kDTypes) {
    if (is_float(type)) continue;
    const auto packed = static_cast<double>(cuda::packed_layout(type, kRows, kCols).total);
    const auto file = static_cast<double>(kRows * cuda::row_bytes(type, kCols));
    // q4_k and q5_k have six-bit scales in the file and eight-bit scales here; q2_k has elements of
    // two and of four bits.
    const bool has_small_scales = type == DType::q4_k || type == DType::q5_k;
    const double more = has_small_scales ? 1.0 / 64 : type == DType::q2_k ? 1.0 / 4 : 0.0;
    EXPECT_EQ(packed - file, kRows * kCols * more) << traits(type).name;
  }
}

}  // namespace
}  // namespace edgedraft::testing
