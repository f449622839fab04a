#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "shared/tensor/element_type.h"

// CUDA form of each operation of shared/runtime/backend.h, which has the formulas: device pointers
// in, launch status out. Everything is enqueued on `stream`; no call waits or allocates.
//
// A row's result never depends on the other rows of its call: sums have one order, splits are by
// position. Products and sums are fused only in explicit fmaf calls (-fmad=false).
namespace edgedraft::cuda {

// Row r starts at data + r * stride floats.
struct Rows {
  float* data;
  std::size_t stride;
};
struct ConstRows {
  const float* data;
  std::size_t stride;
};

// Bytes per row of weights in file format, and of coded types in coded layout
// (shared/tensor/coded_blocks.h).
// Requires  cols a multiple of the type's block
__host__ __device__ constexpr std::size_t row_bytes(DType type, std::uint32_t cols) {
  const DTypeTraits t = traits(type);
  return std::size_t{cols / t.block_count} *
         (is_coded(type) ? coded_block_bytes(type) : t.block_bytes);
}

// y[r] = table[tokens[r]] as float32.
struct EmbedArgs {
  DType type;
  const std::byte* table;  // [vocabulary, cols], row_bytes each
  const std::uint32_t* tokens;
  std::uint32_t rows;
  std::uint32_t cols;
  Rows y;
};
[[nodiscard]] cudaError_t embed(const EmbedArgs& args, cudaStream_t stream);

// Like a matmul, it reads its weight before earlier kernels end.
struct RmsNormArgs {
  ConstRows x;
  const float* weight;  // [cols]
  Rows y;
  std::uint32_t rows;
  std::uint32_t cols;  // of a group
  float epsilon;
  std::uint32_t groups = 1;  // per row
  bool accumulate = false;
};
[[nodiscard]] cudaError_t rms_norm(const RmsNormArgs& args, cudaStream_t stream);

// --- matmuls ---

// Matmuls of the same x share a launch, so that small ones fill the device.
inline constexpr std::uint32_t kProductsMax = 4;

// Kernel selection; results are bit-identical for all.
enum class ProductKernel : std::uint8_t {
  by_shape,      // chosen by products.cuh
  narrow,        // one block per 32 outputs of up to 32 rows, one warp per eighth of the inputs
  few_outputs,   // one block per 64 outputs by 32 rows, through shared memory
  many_outputs,  // one block per 128 outputs by 64 rows
};

struct Product {
  // [outputs, inputs]; for int8_matmul as packed by pack_weight. Read before earlier kernels end,
  // so it must not be another kernel's result.
  const std::byte* weight;
  const float* bias;  // null: none
  Rows y;             // [rows, outputs]
  std::uint32_t outputs;
  bool accumulate;
};

// Weights f32, f16 or bf16, with float32 accuracy. An activation is split into three bfloat16 or
// two TF32 terms, so that products with 16-bit weights are exact.
struct MatmulArgs {
  ConstRows x;  // [rows, inputs]
  DType type;
  ProductKernel kernel;
  std::uint32_t rows;
  std::uint32_t inputs;
  std::uint32_t product_count;
  Product products[kProductsMax];
};
[[nodiscard]] cudaError_t matmul(const MatmulArgs& args, cudaStream_t stream);

// Inputs per quantization group of activations.
inline constexpr std::uint32_t kGroup = 128;
__host__ __device__ constexpr std::uint32_t groups(std::uint32_t cols) {
  return (cols + kGroup - 1) / kGroup;
}

// Activations for int8_matmul: x_i = scale * q_i with |q_i| <= 127, rounded to nearest, one scale
// per group. A scale is NaN if its group holds an infinity or NaN. cols is a multiple of 32.
struct QuantizedRows {
  std::byte* values;  // [groups, rows, 128] in the order of int8_matmul
  float* scales;      // [groups, rows]
  float* sums;        // [groups, rows, 4]: sums of 32 q each
};
struct QuantizeArgs {
  ConstRows x;
  std::uint32_t rows;
  std::uint32_t cols;
  QuantizedRows y;
};
[[nodiscard]] cudaError_t quantize(const QuantizeArgs& args, cudaStream_t stream);

// rms_norm of one group per row, and gate, followed by `quantize`, bit for bit.
struct RmsNormQuantizeArgs {
  ConstRows x;
  const float* weight;
  QuantizedRows y;
  std::uint32_t rows;
  std::uint32_t cols;
  float epsilon;
};
[[nodiscard]] cudaError_t rms_norm_quantize(const RmsNormQuantizeArgs& args, cudaStream_t stream);

struct GateQuantizeArgs {
  ConstRows gate;
  ConstRows up;
  QuantizedRows y;
  std::uint32_t rows;
  std::uint32_t cols;
  Activation activation;
  bool one_gate;  // per row
};
[[nodiscard]] cudaError_t gate_quantize(const GateQuantizeArgs& args, cudaStream_t stream);

// Packed layout of a quantized type for matrix instructions: tiles of 16 outputs, groups of 128
// inputs, zero-padded.
struct Packing {
  std::uint32_t bits;  // per element; bits beyond four are stored apart
  bool is_signed;      // two's complement
  bool has_minimum;    // per 32 inputs, or per 16 if has_halves
  // K types: scales and minimums are bytes, with one float16 factor per 256 inputs. Other types:
  // one float16 per 32 inputs; mxfp4's is a bfloat16.
  bool is_k;
  bool has_halves = false;  // scale and minimum per 16 inputs, four bits each
  bool is_coded = false;    // elements are codes

  __host__ __device__ constexpr std::uint32_t rest_bits() const { return bits == 8 ? 0 : bits - 4; }
  __host__ __device__ constexpr std::uint32_t scale_words() const {
    return has_minimum && !is_k ? 2 : 1;
  }
  __host__ __device__ constexpr std::uint32_t factor_words() const {
    return is_k ? has_minimum ? 2 : 1 : 0;
  }
};
// Packing of q8_0 and of all later types.
__host__ __device__ constexpr Packing packing(DType type) {
  switch (type) {
    case DType::q4_0:
      return {4, true, false, false};
    case DType::q4_1:
      return {4, false, true, false};
    case DType::q5_0:
      return {5, true, false, false};
    case DType::q5_1:
      return {5, false, true, false};
    case DType::q4_k:
      return {4, false, true, true};
    case DType::q5_k:
      return {5, false, true, true};
    case DType::q6_k:
      return {6, true, false, true};
    case DType::q2_k:
      return {4, false, true, true, true};
    case DType::q3_k:
    case DType::iq4_xs:
    case DType::iq3_s:
    case DType::iq3_xxs:
    case DType::iq2_s:
    case DType::iq2_xs:
    case DType::iq2_xxs:
      return {4, true, false, true, false, true};
    case DType::iq4_nl:
    case DType::mxfp4:
      return {4, true, false, false, false, true};
    default:
      return {8, true, false, false};
  }
}
// Byte offsets of all parts but the first, the quantized elements.
struct PackedLayout {
  std::size_t rest;
  std::size_t scales;
  std::size_t factors;
  std::size_t total;
};
__host__ __device__ constexpr PackedLayout packed_layout(DType type, std::uint32_t outputs,
                                                         std::uint32_t inputs) {
  const Packing p = packing(type);
  const std::size_t count = std::size_t{(outputs + 15) / 16} * groups(inputs);
  const std::size_t rest = count * (p.bits == 8 ? 2048 : 1024);
  const std::size_t scales = rest + count * 256 * p.rest_bits();
  const std::size_t factors = scales + count * 128 * p.scale_words();
  return {rest, scales, factors, factors + count / 2 * 32 * p.factor_words()};
}
struct PackWeightArgs {
  DType type;
  const std::byte* weight;  // [outputs, inputs], row_bytes each
  std::uint32_t outputs;
  std::uint32_t inputs;
  std::byte* packed;  // packed_layout(...).total bytes, 16-byte aligned
};
[[nodiscard]] cudaError_t pack_weight(const PackWeightArgs& args, cudaStream_t stream);

// Values of a coded type's codes, as signed bytes, and the unit of its scales (element_type.h).
struct Codes {
  std::uint32_t words[4];
  float unit;
};
constexpr Codes codes_of(DType type) {
  const CodeTable table = code_table(type);
  Codes codes{{}, table.unit};
  for (std::uint32_t i = 0; i < 16; ++i) {
    codes.words[i / 4] |= std::uint32_t{static_cast<std::uint8_t>(table.value[i])} << i % 4 * 8;
  }
  return codes;
}

// Quantized weights by activations of `quantize`: int8 products are summed exactly per block and
// scaled in float32.
struct Int8MatmulArgs {
  const std::byte* values;
  const float* scales;
  const float* sums;
  DType type;
  ProductKernel kernel;
  std::uint32_t rows;
  std::uint32_t inputs;
  std::uint32_t product_count;
  Codes codes;  // set by int8_matmul
  Product products[kProductsMax];
};
[[nodiscard]] cudaError_t int8_matmul(const Int8MatmulArgs& args, cudaStream_t stream);

// y = x in 16 bits, packed, for a library matmul. float16 saturates at its largest finite value.
struct RoundRowsArgs {
  ConstRows x;
  DType type;  // f16 or bf16
  std::uint32_t rows;
  std::uint32_t cols;
  std::uint16_t* y;
};
[[nodiscard]] cudaError_t round_rows(const RoundRowsArgs& args, cudaStream_t stream);

// y[r] = (accumulate ? y[r] : 0) + bias: the initial value for a library matmul.
struct BiasArgs {
  const float* bias;
  Rows y;
  std::uint32_t rows;
  std::uint32_t cols;
  bool accumulate;
};
[[nodiscard]] cudaError_t add_bias(const BiasArgs& args, cudaStream_t stream);

// --- caches ---

// Keys or values of one sequence: slot s is row s or, with pages, row pages[s / page_slots] *
// page_slots + s % page_slots. Values are rounded to nearest; finite values stay finite in f16.
struct Cache {
  std::byte* data;
  DType type;                  // a cache type (kCacheTypes)
  std::size_t stride;          // elements between rows
  const std::uint32_t* pages;  // null: contiguous
  std::uint32_t page_slots;
};

// Rotates rows in place.
struct RopeArgs {
  Rows x;
  std::uint32_t cols;
  const std::uint32_t* positions;
  ConstRows cos_sin;
  std::uint32_t rows;
  std::uint32_t head_dim;
  std::uint32_t rotated;  // dimensions of each head
  bool pairs;             // RopeStyle::pairs, not halves
};
[[nodiscard]] cudaError_t rope(const RopeArgs& args, cudaStream_t stream);

// Copies row r to row places[r] of a cache: rows of any number of sequences whose caches share a
// buffer.
struct StorePart {
  ConstRows x;         // [rows, cols]
  std::byte* data;     // start of the cache
  std::size_t stride;  // elements between rows of the cache
};
struct StoreArgs {
  StorePart part;
  DType type;  // type of the cache
  const std::uint32_t* places;
  std::uint32_t rows;
  std::uint32_t cols;
};
[[nodiscard]] cudaError_t store(const StoreArgs& args, cudaStream_t stream);

// Rotates queries in place, and stores rotated keys, and values, in their caches: bit-identical to
// rope and store. Keys are not modified. Not for int8: a block's elements have several threads.
struct RopeStoreArgs {
  Rows q;
  std::uint32_t query_cols;
  StorePart keys;
  StorePart values;
  std::uint32_t kv_cols;
  DType type;  // type of the caches
  const std::uint32_t* positions;
  const std::uint32_t* places;
  ConstRows cos_sin;
  std::uint32_t rows;
  std::uint32_t head_dim;
  std::uint32_t rotated;  // dimensions of each head; 0: only stores
  bool pairs;             // RopeStyle::pairs, not halves
};
[[nodiscard]] cudaError_t rope_store(const RopeStoreArgs& args, cudaStream_t stream);

// Row first + i of the cache = row slots[i], i ascending.
struct CompactArgs {
  Cache cache;
  std::uint32_t cols;
  std::uint32_t first;
  const std::uint32_t* slots;
  std::uint32_t slot_count;
};
[[nodiscard]] cudaError_t compact(const CompactArgs& args, cudaStream_t stream);

struct Heads {
  std::uint32_t kv_heads;
  std::uint32_t group;  // query heads per key-value head
  std::uint32_t head_dim;
};

// keys, values: one cache per layer, in device memory.
struct GatherLayersArgs {
  const Cache* keys;
  const Cache* values;
  std::uint32_t layers;
  const std::uint32_t* slots;
  std::uint32_t slot_count;
  Heads heads;
  bool pairs;
  Rows y;
};
[[nodiscard]] cudaError_t gather_layers(const GatherLayersArgs& args, cudaStream_t stream);

// --- rows ---

struct GateArgs {
  ConstRows gate;
  ConstRows up;
  Rows y;
  std::uint32_t rows;
  std::uint32_t cols;
  Activation activation;
  bool one_gate;  // per row
};
[[nodiscard]] cudaError_t gate(const GateArgs& args, cudaStream_t stream);

struct ScaleArgs {
  Rows x;
  std::uint32_t rows;
  std::uint32_t cols;
  float factor;
};
[[nodiscard]] cudaError_t scale(const ScaleArgs& args, cudaStream_t stream);

struct SoftCapArgs {
  Rows x;
  std::uint32_t rows;
  std::uint32_t cols;
  float cap;
};
[[nodiscard]] cudaError_t soft_cap(const SoftCapArgs& args, cudaStream_t stream);

struct GroupMeanArgs {
  ConstRows x;
  std::uint32_t groups;
  std::uint32_t group_rows;
  std::uint32_t cols;
  Rows y;
};
[[nodiscard]] cudaError_t group_mean(const GroupMeanArgs& args, cudaStream_t stream);

// --- recurrent layers ---

inline constexpr std::uint32_t kNoRow = 0xFFFFFFFFu;  // kNoParent
inline constexpr std::uint32_t kRecurrentRowsMax = 256;
inline constexpr std::uint32_t kConvolutionTapsMax = 8;

// RecurrentRows of one sequence; everything is on the device.
struct RecurrentSequence {
  float* state;
  std::size_t state_stride;
  float* kept;
  std::size_t kept_stride;
  const std::uint32_t* parents;  // of kept rows
  const std::uint32_t* pending;
  std::uint32_t pending_count;
  std::uint32_t first;  // of its rows in the call
  std::uint32_t rows;   // at most kRecurrentRowsMax
  std::uint32_t settled;
  std::uint32_t kept_first;  // row of `kept` for the first unsettled row
};
struct RecurrentCall {
  const RecurrentSequence* sequences;
  const std::uint32_t* owners;  // [rows], sequence of each row
  std::uint32_t sequence_count;
  std::uint32_t rows;
  std::uint32_t drafts_max;  // most rows of a sequence that are not settled
};

struct ConvolutionArgs {
  ConstRows x;
  const float* weight;  // [cols, taps]
  std::uint32_t taps;   // at most kConvolutionTapsMax
  bool silu;            // or identity
  Rows y;
  std::uint32_t cols;
  RecurrentCall call;
};
[[nodiscard]] cudaError_t convolve(const ConvolutionArgs& args, cudaStream_t stream);

struct DeltaRuleArgs {
  ConstRows qkv;
  ConstRows alpha;
  ConstRows beta;
  const float* decay;
  const float* time_bias;
  std::uint32_t key_heads;
  std::uint32_t value_heads;
  std::uint32_t dim;  // at most 256
  float epsilon;
  float* scratch;  // delta_rule_scratch_floats per row
  Rows y;
  RecurrentCall call;
};
// Divided q and k, then g and b.
__host__ __device__ constexpr std::uint32_t delta_rule_scratch_floats(std::uint32_t key_heads,
                                                                      std::uint32_t value_heads,
                                                                      std::uint32_t dim) {
  return 2 * key_heads * dim + 2 * value_heads;
}
[[nodiscard]] cudaError_t delta_rule(const DeltaRuleArgs& args, cudaStream_t stream);

// --- choices ---

inline constexpr std::uint32_t kTopKMax = 256;
inline constexpr std::uint32_t kTopKSegment = 4096;
__host__ __device__ constexpr std::uint32_t top_k_segments(std::uint32_t cols) {
  return (cols + kTopKSegment - 1) / kTopKSegment;
}
// The k best of each segment, and a sum.
constexpr std::size_t top_k_scratch_words(std::uint32_t rows, std::uint32_t cols, std::uint32_t k) {
  return std::size_t{rows} * top_k_segments(cols) * (std::size_t{k} + 1);
}
// The k best of log-softmax, best first, ties by lowest index. NaN sorts lowest.
struct TopKArgs {
  ConstRows logits;
  std::uint32_t rows;
  std::uint32_t cols;
  std::uint32_t k;
  std::uint64_t* scratch;
  // At least top_k_scratch_words(...); with fewer, nothing is launched and the status is
  // cudaErrorInvalidValue.
  std::size_t scratch_words;
  std::uint32_t* tokens;
  float* log_probs;
};
[[nodiscard]] cudaError_t top_k(const TopKArgs& args, cudaStream_t stream);

// keys[r] holds the index of the largest entry in its low half, inverted: token = ~(keys[r] &
// (2^32-1)).
struct ArgmaxArgs {
  ConstRows logits;
  std::uint32_t rows;
  std::uint32_t cols;
  std::uint64_t* keys;  // [rows], zeroed
};
[[nodiscard]] cudaError_t argmax(const ArgmaxArgs& args, cudaStream_t stream);
constexpr std::uint32_t argmax_token(std::uint64_t key) {
  return ~static_cast<std::uint32_t>(key);
}

}  // namespace edgedraft::cuda
