#include "server/cuda/cuda_products.h"

#include <algorithm>

#include "kernels/cuda/experts.h"
#include "server/cuda/cuda_backend.h"
#include "server/cuda/cuda_views.h"

namespace edgedraft::server {
namespace {

template <class Args>
void set_products(Args& args, std::span<const MatmulOp> ops) {
  args.type = ops[0].weight.type;
  args.rows = ops[0].x.rows;
  args.inputs = ops[0].x.cols;
  args.product_count = static_cast<std::uint32_t>(ops.size());
  for (std::size_t i = 0; i < ops.size(); ++i) {
    args.products[i] = {.weight = device_matrix(ops[i].weight),
                        .bias = device_floats(ops[i].bias),
                        .y = device_rows(ops[i].y),
                        .outputs = ops[i].weight.rows,
                        .accumulate = ops[i].into == Into::accumulate};
  }
}

// The library matmul as a launch.
struct LibraryProduct {
  CudaGemm* gemm;
  CudaGemm::Product product;
};
cudaError_t multiply_by_library(const LibraryProduct& args, cudaStream_t) {
  args.gemm->multiply(args.product);
  return cudaSuccess;
}

}  // namespace

CudaProducts::CudaProducts(CudaQueue& queue, bool deterministic) : queue_(queue) {
  if (!deterministic) gemm_ = std::make_unique<CudaGemm>(queue);
}

bool CudaProducts::take_int8(std::span<const MatmulOp> ops) {
  return std::ranges::none_of(ops, [](const MatmulOp& op) { return is_float(op.weight.type); });
}

void CudaProducts::multiply(std::span<const MatmulOp> ops, Input input) {
  bool is_quantized = input == Input::reserved_int8;
  std::optional<DType> rounded;
  for (std::size_t done = 0; done < ops.size();) {
    const MatmulOp& op = ops[done];
    if (is_float(op.weight.type) && gemm_ && op.x.rows > kOwnProductRowsMax) {
      library_product(op, rounded);
      ++done;
      continue;
    }
    std::size_t end = done + 1;
    while (end < ops.size() && end - done < cuda::kProductsMax &&
           ops[end].weight.type == op.weight.type) {
      ++end;
    }
    const auto together = ops.subspan(done, end - done);
    if (is_float(op.weight.type)) {
      float_products(together);
    } else {
      if (!is_quantized) quantize(op.x);
      is_quantized = true;
      int8_products(together);
    }
    done = end;
  }
}

void CudaProducts::float_products(std::span<const MatmulOp> ops) {
  cuda::MatmulArgs args{};
  args.x = device_const_rows(ops[0].x);
  set_products(args, ops);
  queue_.enqueue(cuda::matmul, args);
}

const cuda::QuantizedRows& CudaProducts::reserve_int8(const Matrix& x) {
  const std::uint64_t groups = std::uint64_t{x.rows} * cuda::groups(x.cols);
  quantized_ = {.values = int8_values_.reserve<std::byte>(groups * cuda::kGroup),
                .scales = int8_scales_.reserve<float>(groups),
                .sums = int8_sums_.reserve<float>(groups * 4)};
  return quantized_;
}

void CudaProducts::quantize(const Matrix& x) {
  queue_.enqueue(
      cuda::quantize,
      cuda::QuantizeArgs{
          .x = device_const_rows(x), .rows = x.rows, .cols = x.cols, .y = reserve_int8(x)});
}

void CudaProducts::int8_products(std::span<const MatmulOp> ops) {
  cuda::Int8MatmulArgs args{};
  args.values = quantized_.values;
  args.scales = quantized_.scales;
  args.sums = quantized_.sums;
  set_products(args, ops);
  queue_.enqueue(cuda::int8_matmul, args);
}

// A single row's experts differ, so grouping its pairs would gain nothing.
void CudaProducts::multiply_experts(const ExpertMatmulOp& op) {
  const Weight& w = op.weight;
  if (op.y.rows == 0) return;
  const bool is_plain = is_float(w.type);
  const bool is_grouped = op.experts.rows > 1;
  cuda::ExpertProduct product{
      .type = w.type,
      .weight = device_matrix(w),
      .expert_bytes = is_plain ? op.y.cols * cuda::row_bytes(w.type, w.cols)
                               : cuda::packed_layout(w.type, op.y.cols, w.cols).total,
      .bias = device_floats(op.bias),
      .choice = {.experts = device_const_rows(op.experts),
                 .used = op.experts.cols,
                 .count = w.experts,
                 .pairs = op.y.rows},
      .order = nullptr,
      .tiles = nullptr,
      .tile_count = is_grouped ? cuda::expert_tiles_max(op.y.rows, w.experts) : op.y.rows,
      .pairs_a_row = op.y.rows / op.x.rows,
      .inputs = w.cols,
      .outputs = op.y.cols,
      .y = device_rows(op.y)};
  if (is_grouped) {
    const cuda::GroupExpertsArgs groups{
        .choice = product.choice,
        .order = expert_order_.reserve<std::uint32_t>(op.y.rows),
        .tiles = expert_tiles_.reserve<cuda::ExpertTile>(product.tile_count),
        .tile_count = product.tile_count};
    product.order = groups.order;
    product.tiles = groups.tiles;
    queue_.enqueue(cuda::group_experts, groups);
  }
  if (is_plain) {
    queue_.enqueue(cuda::expert_matmul,
                   cuda::ExpertMatmulArgs{.x = device_const_rows(op.x), .product = product});
  } else {
    quantize(op.x);
    queue_.enqueue(
        cuda::expert_int8_matmul,
        cuda::ExpertInt8MatmulArgs{.x = quantized_, .x_rows = op.x.rows, .product = product});
  }
}

void CudaProducts::library_product(const MatmulOp& op, std::optional<DType>& rounded) {
  const bool is_16_bits = op.weight.type != DType::f32;
  const void* x = device_data(op.x);
  if (is_16_bits) {
    auto* y = rounded_.reserve<std::uint16_t>(std::uint64_t{op.x.rows} * op.x.cols);
    x = y;
    if (rounded != op.weight.type) {
      queue_.enqueue(cuda::round_rows, cuda::RoundRowsArgs{.x = device_const_rows(op.x),
                                                           .type = op.weight.type,
                                                           .rows = op.x.rows,
                                                           .cols = op.x.cols,
                                                           .y = y});
      rounded = op.weight.type;
    }
  }
  bool accumulate = op.into == Into::accumulate;
  if (op.bias) {
    queue_.enqueue(cuda::add_bias, cuda::BiasArgs{.bias = device_floats(op.bias),
                                                  .y = device_rows(op.y),
                                                  .rows = op.y.rows,
                                                  .cols = op.y.cols,
                                                  .accumulate = accumulate});
    accumulate = true;
  }
  queue_.enqueue(multiply_by_library,
                 LibraryProduct{.gemm = gemm_.get(),
                                .product = {.type = op.weight.type,
                                            .x = x,
                                            .x_stride = is_16_bits ? op.x.cols : op.x.stride,
                                            .weight = device_matrix(op.weight),
                                            .y = device_rows(op.y),
                                            .rows = op.x.rows,
                                            .inputs = op.x.cols,
                                            .outputs = op.weight.rows,
                                            .accumulate = accumulate}});
}

}  // namespace edgedraft::server
