#pragma once

#include "kernels/cuda/ops.h"

// Operations of mixtures of experts; conventions as in ops.h. A pair is a row and one of its
// experts: pair r * used + u.
namespace edgedraft::cuda {

// A row's choice has one lane per expert.
inline constexpr std::uint32_t kExpertsUsedMax = 32;
// One thread per expert groups the pairs.
inline constexpr std::uint32_t kExpertsMax = 1024;

struct RouteArgs {
  ConstRows logits;
  std::uint32_t rows;
  std::uint32_t count;  // logits per row, at most kExpertsMax
  std::uint32_t used;   // at most kExpertsUsedMax
  Rows experts;
  Rows weights;
};
[[nodiscard]] cudaError_t route(const RouteArgs& args, cudaStream_t stream);

struct MixArgs {
  ConstRows x;  // [rows * used, cols]
  ConstRows weights;
  std::uint32_t rows;
  std::uint32_t used;
  std::uint32_t cols;
  Rows y;
};
[[nodiscard]] cudaError_t mix(const MixArgs& args, cudaStream_t stream);

// Pairs and their experts: experts[pair / used, pair % used], as float32. Larger choices than
// count - 1 count as the last.
struct ExpertChoice {
  ConstRows experts;
  std::uint32_t used;
  std::uint32_t count;
  std::uint32_t pairs;
};
// Up to kExpertTilePairs pairs of one expert, order[first].., which share its weights.
struct ExpertTile {
  std::uint32_t expert;
  std::uint32_t first;
  std::uint32_t count;  // 0: unused
};
inline constexpr std::uint32_t kExpertTilePairs = 8;
// Tiles that any choice needs at most.
constexpr std::uint32_t expert_tiles_max(std::uint32_t pairs, std::uint32_t experts) {
  return (pairs + (kExpertTilePairs - 1) * (experts < pairs ? experts : pairs)) / kExpertTilePairs;
}

// Groups pairs by expert, in the order of pairs.
struct GroupExpertsArgs {
  ExpertChoice choice;
  std::uint32_t* order;      // [pairs]
  ExpertTile* tiles;         // [tile_count]
  std::uint32_t tile_count;  // expert_tiles_max
};
[[nodiscard]] cudaError_t group_experts(const GroupExpertsArgs& args, cudaStream_t stream);

// The matrices of a call's experts. Pair p has row p / pairs_a_row of x.
struct ExpertProduct {
  DType type;
  const std::byte* weight;  // the first expert's; as in Product
  std::size_t expert_bytes;
  const float* bias;  // [experts, outputs], or null
  ExpertChoice choice;
  const std::uint32_t* order;  // of group_experts; null: one tile per pair
  const ExpertTile* tiles;
  std::uint32_t tile_count;
  std::uint32_t pairs_a_row;
  std::uint32_t inputs;
  std::uint32_t outputs;
  Rows y;  // [pairs, outputs]
};
// Weights f32, f16 or bf16.
struct ExpertMatmulArgs {
  ConstRows x;
  ExpertProduct product;
};
[[nodiscard]] cudaError_t expert_matmul(const ExpertMatmulArgs& args, cudaStream_t stream);
// Quantized weights, each expert's packed by pack_weight, by activations of `quantize`.
struct ExpertInt8MatmulArgs {
  QuantizedRows x;
  std::uint32_t x_rows;
  ExpertProduct product;
  Codes codes = {};  // set by expert_int8_matmul
};
[[nodiscard]] cudaError_t expert_int8_matmul(const ExpertInt8MatmulArgs& args, cudaStream_t stream);

}  // namespace edgedraft::cuda
