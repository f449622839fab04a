#include "kernels/cuda/check/checks.h"

namespace edgedraft::cuda::check {
namespace {

Sizes real_sizes() {
  return {4096, 1024, 14336, 128256, 200, 4096, {1, 2, 7, 8, 16, 33, 64, 128}};
}
Sizes small_sizes() {
  return {512, 64, 384, 3000, 200, 4300, {1, 9, 33}};
}

}  // namespace

int run_checks(bool small) {
  const Sizes s = small ? small_sizes() : real_sizes();
  Report report(s);
  for (const DType type : kDTypes) check_embed(report, type);
  check_rms_norm(report);
  check_gate(report);
  // Rows of whole groups, with a partial one, and longer than a block keeps in registers.
  for (const std::uint32_t cols : {s.dim, s.ffn, 1120u, 8704u}) check_quantizing(report, cols);
  for (const DType type : kDTypes) {
    check_products(report, type, s.dim, s.kv_cols);
    if (!small) {
      check_products(report, type, s.dim, s.ffn);
      check_products(report, type, s.ffn, s.dim);
    }
  }
  check_products(report, DType::bf16, 333, 100);
  // Edges of large tiles, and enough inputs to refill each stage.
  for (const DType type : {DType::q4_0, DType::q8_0}) check_products(report, type, 2336, 141);
  check_products(report, DType::q4_k, 2304, 141);
  for (const DType type : {DType::bf16, DType::f16}) check_products(report, type, 1064, 141);
  check_rope(report);
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    for (const bool paged : {false, true}) check_attention(report, type, paged, s.prefix);
  }
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    check_attention(report, type, true, s.long_prefix);
  }
  check_attention_tiles(report);
  check_group_attention(report);
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    check_rope_store(report, type);
    check_cache_moves(report, type);
  }
  check_gather_and_mean(report);
  check_convolve(report);
  for (const std::uint32_t dim : {16u, 128u, 256u}) check_delta_rule(report, dim);
  check_choices(report);
  std::printf("\n%d failed.\n", report.failures());
  return report.failures();
}

}  // namespace edgedraft::cuda::check
