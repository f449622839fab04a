#include <gtest/gtest.h>

#include "kernels/cuda/check/support.h"
#include "kernels/cuda/ops.h"
#include "kernels/cuda/products.cuh"
#include "tests/cuda_host/lanes.h"
#include "tests/runtime/op_test.h"

// A row of a matmul has the same bits in every kernel and at every width.
namespace edgedraft::testing {
namespace {

using cuda::ProductKernel;
constexpr ProductKernel kWide[] = {ProductKernel::few_outputs, ProductKernel::many_outputs};

const char* name_of(ProductKernel kernel) {
  switch (kernel) {
    case ProductKernel::narrow:
      return "narrow";
    case ProductKernel::few_outputs:
      return "few outputs";
    case ProductKernel::many_outputs:
      return "many outputs";
    default:
      return "by shape";
  }
}

// A matmul of its own activations, with bias and accumulation, into strided rows.
class Case {
 public:
  Case(DType type, std::uint32_t inputs, std::uint32_t outputs, std::uint32_t rows_max)
      : type_(type),
        inputs_(inputs),
        outputs_(outputs),
        weight_(cuda::check::random_weight(type, outputs, inputs, inputs + outputs)),
        packed_(is_float(type) ? 0 : cuda::packed_layout(type, outputs, inputs).total),
        x_(random_floats(rows_max, std::size_t{rows_max} * inputs)),
        bias_(random_floats(7, outputs)),
        before_(random_floats(8, std::size_t{rows_max} * stride())) {
    if (is_float(type)) return;
    EXPECT_EQ(cuda::pack_weight({type, weight_.data(), outputs, inputs, packed_.data()}, nullptr),
              cudaSuccess);
  }

  // Includes the gaps between rows.
  Floats product(std::uint32_t rows, ProductKernel kernel) const {
    Floats y = first_rows(before_, rows);
    const cuda::Product product{is_float(type_) ? weight_.data() : packed_.data(),
                                bias_.data(),
                                {y.data(), stride()},
                                outputs_,
                                true};
    if (is_float(type_)) {
      EXPECT_EQ(
          cuda::matmul({{x_.data(), inputs_}, type_, kernel, rows, inputs_, 1, {product}}, nullptr),
          cudaSuccess);
      return y;
    }
    const std::size_t groups = std::size_t{rows} * cuda::groups(inputs_);
    const cuda::check::Array<std::byte> values(groups * cuda::kGroup);
    const cuda::check::Array<float> scales(groups);
    const cuda::check::Array<float> sums(groups * 4);
    EXPECT_EQ(cuda::quantize(
                  {{x_.data(), inputs_}, rows, inputs_, values.data(), scales.data(), sums.data()},
                  nullptr),
              cudaSuccess);
    EXPECT_EQ(cuda::int8_matmul({values.data(),
                                 scales.data(),
                                 sums.data(),
                                 type_,
                                 kernel,
                                 rows,
                                 inputs_,
                                 1,
                                 {},
                                 {product}},
                                nullptr),
              cudaSuccess);
    return y;
  }

  void expect_same(const Floats& all, std::uint32_t rows, ProductKernel kernel) const {
    const Floats some = product(rows, kernel);
    ASSERT_TRUE(same_bytes(some, first_rows(all, rows)))
        << traits(type_).name << ", " << inputs_ << " to " << outputs_ << ", " << rows << " rows, "
        << name_of(kernel);
  }

 private:
  std::size_t stride() const { return std::size_t{outputs_} + 3; }
  Floats first_rows(const Floats& all, std::uint32_t rows) const {
    return {all.begin(), all.begin() + static_cast<std::ptrdiff_t>(rows * stride())};
  }

  DType type_;
  std::uint32_t inputs_;
  std::uint32_t outputs_;
  std::vector<std::byte> weight_;
  cuda::check::Array<std::byte> packed_;
  Floats x_;
  Floats bias_;
  Floats before_;
};

// A number of inputs that is not a multiple of a step, if the type allows it.
std::uint32_t odd_inputs(DType type) {
  return traits(type).block_count > 32 ? 512 : is_float(type) ? 424 : 416;
}

// Around the edges of both tiles.
TEST(WideProductsTest, MatchNarrowKernelBitForBit) {
  for (const DType type : kDTypes) {
    if (type == DType::f32) continue;
    constexpr std::uint32_t kRows = 130;
    const Case c(type, odd_inputs(type), 141, kRows);
    const Floats all = c.product(kRows, ProductKernel::narrow);
    for (const ProductKernel kernel : kWide) {
      for (const std::uint32_t rows : {1u, 31u, 32u, 33u, 64u, 65u, kRows}) {
        c.expect_same(all, rows, kernel);
        if (HasFatalFailure()) return;
      }
    }
  }
}

// Slices with several steps and slices with none; two, three and four stages.
TEST(WideProductsTest, MatchNarrowKernelForManyAndFewInputs) {
  for (const DType type : {DType::bf16, DType::q8_0, DType::q4_0, DType::q4_k}) {
    for (const std::uint32_t inputs : {256u, 2304u}) {
      const Case c(type, inputs, 40, 35);
      const Floats all = c.product(35, ProductKernel::narrow);
      for (const std::size_t kibibytes : {70u, 90u, 227u}) {
        cuda_host::set_block_memory(kibibytes << 10);
        for (const ProductKernel kernel : kWide) c.expect_same(all, 35, kernel);
        cuda_host::set_block_memory(cuda_host::kBlockMemoryBytesMax);
      }
      if (HasFatalFailure()) return;
    }
  }
}

// Each tile reads its weights and activations once, as docs/records/performance/cuda.md assumes.
TEST(WideProductsTest, ReadWeightsAndActivationsOncePerTile) {
  struct Read {
    DType type;
    double weight;      // bytes per weight; bytes that two groups share count for both
    double activation;  // with its share of scales and sums
  };
  for (const Read& read :
       {Read{DType::q4_0, 18.0 / 32, 1 + 4.0 / 128}, Read{DType::q8_0, 34.0 / 32, 1 + 4.0 / 128},
        Read{DType::q4_k, 19.0 / 32, 1 + 20.0 / 128}, Read{DType::bf16, 2, 4}}) {
    constexpr std::uint32_t kInputs = 512;
    constexpr std::uint32_t kOutputs = 256;
    constexpr std::uint32_t kRows = 128;
    const Case c(read.type, kInputs, kOutputs, kRows);
    for (const ProductKernel kernel : kWide) {
      const bool few = kernel == ProductKernel::few_outputs;
      const double weights = read.weight * kInputs * kOutputs * (kRows / (few ? 32 : 64));
      const double activations = read.activation * kInputs * kRows * (kOutputs / (few ? 64 : 128));
      const std::uint64_t before = cuda_host::copied_bytes();
      c.product(kRows, kernel);
      EXPECT_EQ(static_cast<double>(cuda_host::copied_bytes() - before), weights + activations)
          << traits(read.type).name << ", " << name_of(kernel);
    }
  }
}

TEST(WideProductsTest, RowsAreBitExactAtEveryWidth) {
  for (const DType type : {DType::bf16, DType::q4_0}) {
    constexpr std::uint32_t kRows = 131;
    const Case c(type, 160, 40, kRows);
    const Floats all = c.product(kRows, ProductKernel::by_shape);
    for (std::uint32_t rows = 1; rows < kRows; ++rows) {
      c.expect_same(all, rows, ProductKernel::by_shape);
      if (HasFatalFailure()) return;
    }
  }
}

// An H100 takes the same time for a tile with fewer rows (docs/records/measurements).
TEST(ProductKernelTest, MinimizesMeasuredTime) {
  struct Product {
    DType type;
    std::uint32_t rows;
    std::vector<std::uint32_t> outputs;
    ProductKernel kernel;
  };
  for (const Product& c : {Product{DType::bf16, 16, {14336, 14336}, ProductKernel::narrow},
                           {DType::bf16, 64, {1024}, ProductKernel::narrow},
                           {DType::bf16, 64, {4096}, ProductKernel::few_outputs},
                           {DType::bf16, 128, {4096}, ProductKernel::few_outputs},
                           {DType::bf16, 128, {14336}, ProductKernel::many_outputs},
                           {DType::q8_0, 64, {4096}, ProductKernel::narrow},
                           {DType::q8_0, 128, {4096}, ProductKernel::narrow},
                           {DType::q8_0, 64, {14336, 14336}, ProductKernel::many_outputs},
                           {DType::q4_0, 32, {14336}, ProductKernel::few_outputs},
                           {DType::q4_0, 128, {14336}, ProductKernel::many_outputs},
                           {DType::q4_k, 32, {4096}, ProductKernel::narrow},
                           {DType::q4_k, 128, {14336}, ProductKernel::many_outputs}}) {
    cuda::MatmulArgs args{};
    args.type = c.type;
    args.rows = c.rows;
    args.inputs = 4096;
    for (const std::uint32_t outputs : c.outputs) {
      args.products[args.product_count++].outputs = outputs;
    }
    EXPECT_EQ(cuda::product_kernel(args), c.kernel)
        << name_of(cuda::product_kernel(args)) << " for " << traits(c.type).name << ", " << c.rows
        << " rows, " << c.outputs[0] << " outputs";
  }
}

}  // namespace
}  // namespace edgedraft::testing
