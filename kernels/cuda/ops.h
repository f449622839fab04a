#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>

#include "shared/tensor/element_type.h"

// The device form of each operation of shared/runtime/backend.h, where the formulas stand: device
// pointers in, the launch's status out. Everything is enqueued on `stream`; nothing waits, nothing
// is allocated.
//
// A row's result never depends on the other rows of its call: sums run in one order, splits are by
// position. Products and sums are fused where the source says fmaf and nowhere else (-fmad=false).
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

// Bytes of a row of weights as a file has it. Requires  cols a multiple of the type's block
__host__ __device__ constexpr std::size_t row_bytes(DType type, std::uint32_t cols) {
  return std::size_t{cols / traits(type).block_count} * traits(type).block_bytes;
}

// y[r] = table[tokens[r]] as float32.
struct EmbedArgs {
  DType type;
  const std::byte* table;  // [vocabulary, cols] as in a file
  const std::uint32_t* tokens;
  std::uint32_t rows;
  std::uint32_t cols;
  Rows y;
};
[[nodiscard]] cudaError_t embed(const EmbedArgs& args, cudaStream_t stream);

struct RmsNormArgs {
  ConstRows x;
  const float* weight;
  Rows y;
  std::uint32_t rows;
  std::uint32_t cols;
  float epsilon;
};
[[nodiscard]] cudaError_t rms_norm(const RmsNormArgs& args, cudaStream_t stream);

// --- products ---

// Products of the same x go together, so that small ones fill the device.
inline constexpr std::uint32_t kProductsMax = 4;

struct Product {
  // [outputs, inputs]; for int8_matmul as pack_weight left it. Is read before kernels in front have
  // ended, so it is never another kernel's result.
  const std::byte* weight;
  const float* bias;  // null for none
  Rows y;             // [rows, outputs]
  std::uint32_t outputs;
  bool accumulate;
};

// Weights f32, f16 or bf16, in float32 accuracy: an activation becomes a sum of three numbers of
// bfloat16 or two of TF32, so that products with 16-bit weights are exact. Built for few rows: the
// weights are read once for 32 of them.
struct MatmulArgs {
  ConstRows x;  // [rows, inputs]
  DType type;
  std::uint32_t rows;
  std::uint32_t inputs;
  std::uint32_t product_count;
  Product products[kProductsMax];
};
[[nodiscard]] cudaError_t matmul(const MatmulArgs& args, cudaStream_t stream);

// Inputs that share a scale when activations are rounded to int8.
inline constexpr std::uint32_t kStretch = 128;
__host__ __device__ constexpr std::uint32_t stretches(std::uint32_t cols) {
  return (cols + kStretch - 1) / kStretch;
}

// Activations as int8 for int8_matmul: x_i = scale * q_i with |q_i| <= 127, rounded to nearest, a
// scale a stretch. A scale is NaN where one of its numbers is infinite or NaN.
struct QuantizeArgs {
  ConstRows x;
  std::uint32_t rows;
  std::uint32_t cols;  // a multiple of 32
  std::byte* values;   // [rows, stretches, 128] in the order of int8_matmul
  float* scales;       // [rows, stretches]
  std::int32_t* sums;  // [rows, stretches, 4]: of the q of 32 numbers
};
[[nodiscard]] cudaError_t quantize(const QuantizeArgs& args, cudaStream_t stream);

// A quantised weight in the order in which matrix instructions take it, in tiles of 16 outputs and
// blocks of 32 inputs, zeros around.
enum class PackedForm : std::uint8_t {
  bytes,      // a byte a number, a float16 scale for 32
  nibbles,    // half a byte a number, the same scales
  with_lines  // a byte a number, a float scale for 16, a float minimum for 32
};
// Of q8_0 and all behind it.
__host__ __device__ constexpr PackedForm packed_form(DType type) {
  switch (type) {
    case DType::q8_0:
    case DType::q5_0:
      return PackedForm::bytes;
    case DType::q4_0:
      return PackedForm::nibbles;
    default:
      return PackedForm::with_lines;
  }
}
struct PackedLayout {
  std::size_t scales;    // bytes before the scales
  std::size_t minimums;  // bytes before the minimums of PackedForm::with_lines
  std::size_t total;
};
__host__ __device__ constexpr PackedLayout packed_layout(DType type, std::uint32_t outputs,
                                                         std::uint32_t inputs) {
  const std::size_t blocks = std::size_t{(outputs + 15) / 16} * stretches(inputs) * 4;
  const PackedForm form = packed_form(type);
  const bool has_lines = form == PackedForm::with_lines;
  const std::size_t scales = blocks * (form == PackedForm::nibbles ? 256 : 512);
  const std::size_t minimums = scales + blocks * (has_lines ? 128 : 32);
  return {scales, minimums, minimums + blocks * (has_lines ? 64 : 0)};
}
struct PackWeightArgs {
  DType type;
  const std::byte* weight;  // [outputs, inputs] as in a file
  std::uint32_t outputs;
  std::uint32_t inputs;
  std::byte* packed;  // packed_layout(...).total bytes, 16-byte aligned
};
[[nodiscard]] cudaError_t pack_weight(const PackWeightArgs& args, cudaStream_t stream);

// Quantised weights by activations of `quantize`: int8 products are added exactly over a block and
// scaled in float32.
struct Int8MatmulArgs {
  const std::byte* values;
  const float* scales;
  const std::int32_t* sums;
  DType type;
  std::uint32_t rows;
  std::uint32_t inputs;
  std::uint32_t product_count;
  Product products[kProductsMax];
};
[[nodiscard]] cudaError_t int8_matmul(const Int8MatmulArgs& args, cudaStream_t stream);

// y = x in 16 bits, packed, for a library's matrix product. float16 stops at its largest number.
struct RoundRowsArgs {
  ConstRows x;
  DType type;  // f16 or bf16
  std::uint32_t rows;
  std::uint32_t cols;
  std::uint16_t* y;
};
[[nodiscard]] cudaError_t round_rows(const RoundRowsArgs& args, cudaStream_t stream);

// y[r] = (accumulate ? y[r] : 0) + bias: what a library's product is added to.
struct BiasArgs {
  const float* bias;
  Rows y;
  std::uint32_t rows;
  std::uint32_t cols;
  bool accumulate;
};
[[nodiscard]] cudaError_t add_bias(const BiasArgs& args, cudaStream_t stream);

// --- attention ---

// Keys or values of one sequence: slot s is row s, or, with pages, row
// pages[s / page_slots] * page_slots + s % page_slots. What is stored is rounded to nearest; finite
// numbers stay finite in f16.
struct Cache {
  std::byte* data;
  DType type;                  // f32, f16 or bf16
  std::size_t stride;          // elements between rows
  const std::uint32_t* pages;  // null: contiguous
  std::uint32_t page_slots;
};

// Rotates x in place and, where `cache` has memory, stores it there as slots first_slot.. .
struct RopeArgs {
  Rows x;
  const std::uint32_t* positions;
  ConstRows cos_sin;
  std::uint32_t rows;
  std::uint32_t cols;
  std::uint32_t head_dim;
  bool pairs;  // RopeStyle::pairs, not halves
  Cache cache;
  std::uint32_t first_slot;
};
[[nodiscard]] cudaError_t rope(const RopeArgs& args, cudaStream_t stream);

struct StoreArgs {
  ConstRows x;
  std::uint32_t rows;
  std::uint32_t cols;
  Cache cache;
  std::uint32_t first_slot;
  // Null, or where it stands on the device instead, for launches that are repeated.
  const std::uint32_t* first_slot_now = nullptr;
};
[[nodiscard]] cudaError_t store(const StoreArgs& args, cudaStream_t stream);

struct Heads {
  std::uint32_t kv_heads;
  std::uint32_t group;  // query heads a key-value head
  std::uint32_t head_dim;
};

inline constexpr std::uint32_t kMaskWords = 4;  // 64 bits each
// Visible slots, counted a row, whose weighted sum is made at a time, and how many of these sums
// are put together first. Never by batch: a row's splits are the same wherever its slots lie.
inline constexpr std::uint32_t kSplitSlots = 32;
inline constexpr std::uint32_t kChunkSplits = 4;

struct AttentionArgs {
  ConstRows q;
  Cache keys;
  Cache values;
  std::uint32_t rows;
  std::uint32_t prefix;
  const std::uint64_t* masks;  // [rows, kMaskWords], or null: the prefix alone
  std::uint32_t tail_slots;    // slots behind the prefix that masks reach to, at most 256
  Heads heads;
  Rows y;
  float* scratch;  // 16-byte aligned
  // That it has: attention_scratch_floats(...) at least. With fewer nothing is launched, and the
  // status is cudaErrorInvalidValue.
  std::size_t scratch_floats;
  // Null, or where the prefix stands on the device, at most `prefix`: for launches that are
  // repeated. Scratch is for `prefix`; no bit of the result depends on that.
  const std::uint32_t* prefix_now = nullptr;
};
// A weighted sum in whole pieces of four, its largest score and its sum of weights.
__host__ __device__ constexpr std::size_t attention_sum_floats(std::uint32_t head_dim) {
  return (head_dim + 3) / 4 * 4 + 4;
}
// Queries (rows times the heads of a group) that share a block where there are so many.
inline constexpr std::uint32_t kBlockQueries = 64;
// Splits are made one by one where their blocks are so few: eight a multiprocessor of an H100.
inline constexpr std::uint32_t kFewBlocks = 1056;
// What their sums take at most, for heads of up to 256 elements.
inline constexpr std::size_t kAttentionSplitFloatsMax =
    std::size_t{kFewBlocks} * kBlockQueries * attention_sum_floats(256);
// The sums in scratch: those of splits where these are few, else those of chunks.
struct AttentionSums {
  std::uint32_t a_chunk;
  std::uint32_t a_head;  // of one row
};
__host__ __device__ constexpr AttentionSums attention_sums(std::uint32_t rows, std::uint32_t prefix,
                                                           std::uint32_t tail_slots,
                                                           const Heads& heads) {
  constexpr std::uint32_t kChunkSlots = kSplitSlots * kChunkSplits;
  const std::uint32_t splits = (prefix + tail_slots + kSplitSlots - 1) / kSplitSlots;
  if (splits * heads.kv_heads * ((rows * heads.group + kBlockQueries - 1) / kBlockQueries) <=
      kFewBlocks) {
    return {kChunkSplits, splits};
  }
  return {1, (prefix + tail_slots + kChunkSlots - 1) / kChunkSlots};
}
// For such a call: one with fewer rows may need more.
__host__ __device__ constexpr std::size_t attention_scratch_floats(std::uint32_t rows,
                                                                   std::uint32_t prefix,
                                                                   std::uint32_t tail_slots,
                                                                   const Heads& heads) {
  return std::size_t{rows} * heads.kv_heads * heads.group *
         attention_sums(rows, prefix, tail_slots, heads).a_head *
         attention_sum_floats(heads.head_dim);
}
// How many rows at a time keep a call's scratch within `floats`, as far as one row alone does: with
// chunks it grows with rows x context. As many as fill whole blocks, where it can be so many. Where
// a call makes splits, scratch is bounded anyway, by kAttentionSplitFloatsMax.
constexpr std::uint32_t attention_rows_max(std::uint32_t prefix, std::uint32_t tail_slots,
                                           const Heads& heads, std::size_t floats) {
  constexpr std::uint32_t kChunkSlots = kSplitSlots * kChunkSplits;
  const std::size_t chunks = (std::size_t{prefix} + tail_slots + kChunkSlots - 1) / kChunkSlots;
  const std::size_t row_floats =
      chunks * heads.kv_heads * heads.group * attention_sum_floats(heads.head_dim);
  const std::size_t rows = row_floats == 0 ? floats : floats / row_floats;
  const std::size_t block_rows = heads.group < kBlockQueries ? kBlockQueries / heads.group : 1;
  const std::size_t whole = rows >= block_rows ? rows - rows % block_rows : rows;
  return static_cast<std::uint32_t>(whole < 1 ? 1 : whole > 0xFFFFu ? 0xFFFFu : whole);
}
[[nodiscard]] cudaError_t attention(const AttentionArgs& args, cudaStream_t stream);

inline constexpr std::uint32_t kGroupRowsMax = 1024;
struct GroupAttentionArgs {
  ConstRows q;
  ConstRows k;
  ConstRows v;
  std::uint32_t groups;
  std::uint32_t group_rows;  // at most kGroupRowsMax
  Heads heads;
  Rows y;
};
[[nodiscard]] cudaError_t group_attention(const GroupAttentionArgs& args, cudaStream_t stream);

// Row first + i of the cache = row slots[i], i ascending.
struct CompactArgs {
  Cache cache;
  std::uint32_t cols;
  std::uint32_t first;
  const std::uint32_t* slots;
  std::uint32_t slot_count;
};
[[nodiscard]] cudaError_t compact(const CompactArgs& args, cudaStream_t stream);

// keys, values: a cache a layer, in device memory.
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

struct SwigluArgs {
  ConstRows gate;
  ConstRows up;
  Rows y;
  std::uint32_t rows;
  std::uint32_t cols;
};
[[nodiscard]] cudaError_t swiglu(const SwigluArgs& args, cudaStream_t stream);

struct GroupMeanArgs {
  ConstRows x;
  std::uint32_t groups;
  std::uint32_t group_rows;
  std::uint32_t cols;
  Rows y;
};
[[nodiscard]] cudaError_t group_mean(const GroupMeanArgs& args, cudaStream_t stream);

// Rows for the link as shared/protocol/activation_codec.h has them: int8 values of all rows, then
// float16 scales, one a group of columns.
struct LinkRowsArgs {
  ConstRows x;
  std::uint32_t rows;
  std::uint32_t group_count;
  const std::uint32_t* group_ends;  // [group_count], ascending; the last is the number of columns
  std::uint32_t cols;
  std::int8_t* values;    // [rows, cols]
  std::uint16_t* scales;  // [rows, group_count]
};
[[nodiscard]] cudaError_t link_rows(const LinkRowsArgs& args, cudaStream_t stream);

// --- choices ---

inline constexpr std::uint32_t kTopKMax = 256;
inline constexpr std::uint32_t kTopKStretch = 1024;
__host__ __device__ constexpr std::uint32_t top_k_stretches(std::uint32_t cols) {
  return (cols + kTopKStretch - 1) / kTopKStretch;
}
struct ExpSum {
  float shift;  // the largest number of a stretch
  float sum;    // of e^(x - shift)
};
// The k best of log-softmax, best first, ties by lowest index. NaN counts as the smallest number.
struct TopKArgs {
  ConstRows logits;
  std::uint32_t rows;
  std::uint32_t cols;
  std::uint32_t k;
  std::uint64_t* keys;  // scratch: 2 * rows * top_k_stretches(cols) * k
  ExpSum* exp_sums;     // scratch: rows * top_k_stretches(cols)
  std::uint32_t* tokens;
  float* log_probs;
};
[[nodiscard]] cudaError_t top_k(const TopKArgs& args, cudaStream_t stream);

// keys[r] holds the largest entry's index in its low half, inverted: token = ~(keys[r] & (2^32-1)).
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
