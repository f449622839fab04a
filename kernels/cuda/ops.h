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

// The weight is read before kernels in front have ended, as those of products are.
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

// What makes them. No bit of a result depends on it.
enum class ProductKernel : std::uint8_t {
  by_shape,      // one of the following, as products.cuh has it
  narrow,        // a block 32 outputs of up to 32 rows, its warps an eighth of the inputs each
  few_outputs,   // a block 64 outputs by 32 rows, through shared memory
  many_outputs,  // a block 128 outputs by 64 rows
};

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
// bfloat16 or two of TF32, so that products with 16-bit weights are exact.
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

// Inputs that share a scale when activations are rounded to int8.
inline constexpr std::uint32_t kStretch = 128;
__host__ __device__ constexpr std::uint32_t stretches(std::uint32_t cols) {
  return (cols + kStretch - 1) / kStretch;
}

// Activations as int8 for int8_matmul: x_i = scale * q_i with |q_i| <= 127, rounded to nearest, a
// scale a stretch. A scale is NaN where one of its numbers is infinite or NaN. Rows have a multiple
// of 32 numbers.
struct QuantizedRows {
  std::byte* values;  // [stretches, rows, 128] in the order of int8_matmul
  float* scales;      // [stretches, rows]
  float* sums;        // [stretches, rows, 4]: of the q of 32 numbers
};
struct QuantizeArgs {
  ConstRows x;
  std::uint32_t rows;
  std::uint32_t cols;
  QuantizedRows y;
};
[[nodiscard]] cudaError_t quantize(const QuantizeArgs& args, cudaStream_t stream);

// What rms_norm and swiglu make, bit for bit as `quantize` leaves it.
struct RmsNormQuantizeArgs {
  ConstRows x;
  const float* weight;
  QuantizedRows y;
  std::uint32_t rows;
  std::uint32_t cols;
  float epsilon;
};
[[nodiscard]] cudaError_t rms_norm_quantize(const RmsNormQuantizeArgs& args, cudaStream_t stream);

struct SwigluQuantizeArgs {
  ConstRows gate;
  ConstRows up;
  QuantizedRows y;
  std::uint32_t rows;
  std::uint32_t cols;
};
[[nodiscard]] cudaError_t swiglu_quantize(const SwigluQuantizeArgs& args, cudaStream_t stream);

// How a quantised type is packed, in the order in which matrix instructions take it: in tiles of 16
// outputs and stretches of 128 inputs, zeros around.
struct Packing {
  std::uint32_t bits;  // of a number; beyond four, the others stand apart
  bool is_signed;      // two's complements
  bool has_minimum;    // for 32 inputs
  // K types: a scale, and a minimum, is a byte, and the float16 that it is multiplied by is shared
  // by 256 inputs. Others have a float16 for 32 inputs.
  bool is_k;

  __host__ __device__ constexpr std::uint32_t rest_bits() const { return bits == 8 ? 0 : bits - 4; }
  __host__ __device__ constexpr std::uint32_t scale_words() const {
    return has_minimum && !is_k ? 2 : 1;
  }
  __host__ __device__ constexpr std::uint32_t factor_words() const {
    return is_k ? has_minimum ? 2 : 1 : 0;
  }
};
// The packing of q8_0 and of all types behind it.
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
    default:
      return {8, true, false, false};
  }
}
// Bytes before each part but the first, the numbers.
struct PackedLayout {
  std::size_t rest;
  std::size_t scales;
  std::size_t factors;
  std::size_t total;
};
__host__ __device__ constexpr PackedLayout packed_layout(DType type, std::uint32_t outputs,
                                                         std::uint32_t inputs) {
  const Packing p = packing(type);
  const std::size_t count = std::size_t{(outputs + 15) / 16} * stretches(inputs);
  const std::size_t rest = count * (p.bits == 8 ? 2048 : 1024);
  const std::size_t scales = rest + count * 256 * p.rest_bits();
  const std::size_t factors = scales + count * 128 * p.scale_words();
  return {rest, scales, factors, factors + count / 2 * 32 * p.factor_words()};
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
  const float* sums;
  DType type;
  ProductKernel kernel;
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

// Rotates rows in place.
struct RopeArgs {
  Rows x;
  std::uint32_t cols;
  const std::uint32_t* positions;
  ConstRows cos_sin;
  std::uint32_t rows;
  std::uint32_t head_dim;
  bool pairs;  // RopeStyle::pairs, not halves
};
[[nodiscard]] cudaError_t rope(const RopeArgs& args, cudaStream_t stream);

// Copies row r to row places[r] of a cache: rows of any number of sequences, as far as their caches
// share a memory.
struct StorePart {
  ConstRows x;         // [rows, cols]
  std::byte* data;     // of the cache
  std::size_t stride;  // of the cache, elements between rows
};
struct StoreArgs {
  StorePart part;
  DType type;  // of the cache
  const std::uint32_t* places;
  std::uint32_t rows;
  std::uint32_t cols;
};
[[nodiscard]] cudaError_t store(const StoreArgs& args, cudaStream_t stream);

// Rotates queries in place, and copies rotated keys, and values, to their caches: bit for bit what
// rope and store do. Keys stay as they are.
struct RopeStoreArgs {
  Rows q;
  std::uint32_t query_cols;
  StorePart keys;
  StorePart values;
  std::uint32_t kv_cols;
  DType type;  // of the caches
  const std::uint32_t* positions;
  const std::uint32_t* places;
  ConstRows cos_sin;
  std::uint32_t rows;
  std::uint32_t head_dim;
  bool pairs;  // RopeStyle::pairs, not halves
};
[[nodiscard]] cudaError_t rope_store(const RopeStoreArgs& args, cudaStream_t stream);

struct Heads {
  std::uint32_t kv_heads;
  std::uint32_t group;  // query heads a key-value head
  std::uint32_t head_dim;
};

inline constexpr std::uint32_t kMaskWords = 4;  // 64 bits each
// Visible slots, counted a row, whose weighted sum is made at a time; how many of these sums are
// put together first, to a chunk; and of how many splits the chunks are put together next, to a
// section. Never by batch: a row's splits are the same wherever its slots lie.
inline constexpr std::uint32_t kSplitSlots = 32;
inline constexpr std::uint32_t kChunkSplits = 4;
inline constexpr std::uint32_t kSectionSplits = 16;

// Slots behind the prefix that a mask may show.
inline constexpr std::uint32_t kTailMax = 256;

// Attention of rows of any number of sequences is one list of blocks, which only needs to be as
// long as the work is. What differs from pass to pass stands in a table in device memory: sequences
// first, then rows, masks and page tables, so that launches repeat.
//
// One sequence's rows. `*_at` count 32-bit words from the table's beginning.
struct alignas(16) AttentionSequence {
  std::uint32_t first_block;  // of all sequences' blocks, which each key-value head has
  std::uint32_t first_row;
  std::uint32_t rows;  // 0: behind the last sequence, where a launch has more blocks than are used
  std::uint32_t prefix;
  std::uint32_t tail_slots;  // slots behind the prefix that masks reach to
  std::uint32_t masks_at;    // [rows, kMaskWords] of 64 bits, where there are tail slots
  std::uint32_t pages_at;    // where caches have pages
  std::uint32_t first_sum;   // of all sequences' sums in scratch
};
// One row: the sums of head h are first_sum + h * head_sums .. in scratch.
struct alignas(16) AttentionRow {
  std::uint32_t visible;  // slots
  std::uint32_t first_sum;
  std::uint32_t head_sums;
  std::uint32_t unused;
};
inline constexpr std::uint32_t kSequenceWords = sizeof(AttentionSequence) / 4;
inline constexpr std::uint32_t kRowWords = sizeof(AttentionRow) / 4;

// How a call is launched: no bit of a result depends on it. Numbers are rounded up, so that they
// repeat while texts grow.
struct AttentionPlan {
  std::uint32_t rows;
  std::uint32_t table_sequences;  // places for them in the table
  std::uint32_t block_queries;    // rows times the heads of a group that a block takes at most
  std::uint32_t block_splits;     // of a piece, which has a sum: 1, kChunkSplits or kSectionSplits
  std::uint32_t blocks;           // of each key-value head
  std::uint32_t sums;             // in scratch
  std::uint32_t tiles;            // 1: on matrix instructions
};

struct AttentionArgs {
  ConstRows q;
  Cache keys;  // its pages are the table's
  Cache values;
  const std::uint32_t* table;
  AttentionPlan plan;
  Heads heads;
  Rows y;
  float* scratch;  // 16-byte aligned
  // That it has: attention_scratch_floats(...) at least. With fewer nothing is launched, and the
  // status is cudaErrorInvalidValue.
  std::size_t scratch_floats;
};
// A weighted sum in whole pieces of four, its largest score and its sum of weights.
__host__ __device__ constexpr std::size_t attention_sum_floats(std::uint32_t head_dim) {
  return (head_dim + 3) / 4 * 4 + 4;
}
constexpr std::size_t attention_scratch_floats(const AttentionPlan& plan, const Heads& heads) {
  return plan.sums * attention_sum_floats(heads.head_dim);
}
// Queries that share a block where there are so many.
inline constexpr std::uint32_t kBlockQueries = 64;
// Splits are made one by one where their blocks are so few: eight a multiprocessor of an H100.
inline constexpr std::uint32_t kFewBlocks = 1056;
// What their sums take at most, for heads of up to 256 elements.
inline constexpr std::size_t kAttentionSplitFloatsMax =
    std::size_t{kFewBlocks} * kBlockQueries * attention_sum_floats(256);

// Rows that a call may have.
inline constexpr std::uint32_t kAttentionRowsMax = 16384;
// One sequence's rows as a plan is made of them, in host memory.
struct AttentionPart {
  std::uint32_t rows;  // at least 1
  std::uint32_t prefix;
  std::uint32_t tail_slots;
  const std::uint64_t* masks;  // [rows, kMaskWords]; null: the prefix alone
  const std::uint32_t* pages;  // null: contiguous
  std::uint32_t page_count;    // that the prefix and the tail reach to
};
// Scratch that a row takes in a call which makes chunks. One that makes splits takes no more than
// kAttentionSplitFloatsMax.
constexpr std::size_t attention_row_floats(std::uint32_t prefix, std::uint32_t tail_slots,
                                           const Heads& heads) {
  constexpr std::uint32_t kChunkSlots = kSplitSlots * kChunkSplits;
  const std::size_t chunks = (std::size_t{prefix} + tail_slots + kChunkSlots - 1) / kChunkSlots;
  return chunks * heads.kv_heads * heads.group * attention_sum_floats(heads.head_dim);
}
// How many rows at a time keep scratch within `floats`, as far as one row alone does: as many as
// fill whole blocks, where it can be so many.
constexpr std::uint32_t attention_rows_max(std::uint32_t prefix, std::uint32_t tail_slots,
                                           const Heads& heads, std::size_t floats) {
  const std::size_t row_floats = attention_row_floats(prefix, tail_slots, heads);
  const std::size_t rows = row_floats == 0 ? floats : floats / row_floats;
  const std::size_t block_rows = heads.group < kBlockQueries ? kBlockQueries / heads.group : 1;
  const std::size_t whole = rows >= block_rows ? rows - rows % block_rows : rows;
  return static_cast<std::uint32_t>(whole < 1                   ? 1
                                    : whole > kAttentionRowsMax ? kAttentionRowsMax
                                                                : whole);
}
// Words of the table of such parts.
std::size_t attention_table_words(const AttentionPart* parts, std::size_t count);
struct AttentionLimits {
  std::size_t block_bytes;  // of shared memory
  // Whether there are kernels on matrix instructions. They have other bits than those without.
  bool tiles;
  // Room in scratch: where the call itself needs no more, its rounding does not either.
  std::size_t scratch_floats;
};
// Plans a call and writes its table, of attention_table_words(...) words. cudaErrorInvalidValue
// where that is more than one call can have.
[[nodiscard]] cudaError_t plan_attention(const AttentionPart* parts, std::size_t count,
                                         const Heads& heads, const AttentionLimits& limits,
                                         AttentionPlan& plan, std::uint32_t* table);
// Whether `plan` and `table`, of as many words as these parts need, are what plan_attention made of
// them for some heads and limits: it takes a small part of planning's time, and the layers of a
// pass differ in neither.
bool attention_is_planned(const AttentionPart* parts, std::size_t count, const AttentionPlan& plan,
                          const std::uint32_t* table);
// What the current device and the code for it give: all but scratch_floats.
[[nodiscard]] cudaError_t attention_limits(AttentionLimits& limits);
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

// --- choices ---

inline constexpr std::uint32_t kTopKMax = 256;
inline constexpr std::uint32_t kTopKStretch = 4096;
__host__ __device__ constexpr std::uint32_t top_k_stretches(std::uint32_t cols) {
  return (cols + kTopKStretch - 1) / kTopKStretch;
}
// The k best of each stretch, and a sum.
constexpr std::size_t top_k_scratch_words(std::uint32_t rows, std::uint32_t cols, std::uint32_t k) {
  return std::size_t{rows} * top_k_stretches(cols) * (std::size_t{k} + 1);
}
// The k best of log-softmax, best first, ties by lowest index. NaN counts as the smallest number.
struct TopKArgs {
  ConstRows logits;
  std::uint32_t rows;
  std::uint32_t cols;
  std::uint32_t k;
  std::uint64_t* scratch;
  // That it has: top_k_scratch_words(...) at least. With fewer nothing is launched, and the status
  // is cudaErrorInvalidValue.
  std::size_t scratch_words;
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
