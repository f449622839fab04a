#pragma once

#include <cstddef>
#include <cstdint>

#include "shared/tensor/element_type.h"

// CPU form of each operation of shared/runtime/backend.h, which has the formulas; takes raw
// pointers. Every kernel computes a part of its output, given by Work, so that threads can share a
// call. Results do not depend on the split.
//
// Each source is compiled once per instruction set (CMakeLists.txt); `best_kernels` selects one.
namespace edgedraft::cpu {

// Row r starts at data + r * stride floats.
struct Rows {
  float* data;
  std::size_t stride;
};
struct ConstRows {
  const float* data;
  std::size_t stride;
};

// Maps slots of one sequence's keys and values to rows: slot s is row (pages[s >> page_shift] <<
// page_shift) + (s mod 2^page_shift); without pages, row s.
struct Pages {
  const std::uint32_t* table;  // null: none
  unsigned page_shift;
};

// Keys or values of a cache type (kCacheTypes): row r starts r * stride elements after data.
struct Cache {
  std::byte* data;
  std::size_t stride;
  DType type;
};
struct ConstCache {
  const std::byte* data;
  std::size_t stride;
  DType type;
};

// Items begin..end-1 of an operation; each Args defines its item.
struct Work {
  std::size_t begin;
  std::size_t end;
  float* scratch;  // per thread, 64-byte aligned; sizes are below, for kernels that use it
};

// Item: a token.
struct EmbedArgs {
  DType type;
  const std::byte* table;  // [vocabulary, cols]
  const std::uint32_t* tokens;
  std::size_t cols;
  Rows y;
};

// Item: a row.
struct RmsNormArgs {
  ConstRows x;
  const float* weight;  // [cols]
  Rows y;
  std::size_t groups;  // per row, of `cols` columns each
  std::size_t cols;
  float epsilon;
  bool accumulate;
};

// Activations for matmul: per chain of inputs, the rows of each tile interleaved input by input; a
// single row is unchanged. The tile size depends on the instruction set. Item: a chain.
struct InterleaveArgs {
  ConstRows x;
  std::size_t rows;
  std::size_t cols;
  float* y;  // [rows * cols]
};
// Products per chain: summed from zero, in order, then added to the previous chains' sum.
inline constexpr std::size_t kChainInputs = 64;
constexpr std::size_t chain_count(std::size_t inputs) {
  return (inputs + kChainInputs - 1) / kChainInputs;
}

// Item: a panel (packed.h) of outputs. Sums run over chains of inputs, for every row count and
// instruction set.
struct MatmulArgs {
  const float* x;  // output of interleave, [rows, inputs]
  DType type;      // f32, f16 or bf16
  const std::byte* panels;
  const float* bias;  // null: none
  Rows y;             // [rows, outputs]
  std::size_t rows;
  std::size_t inputs;
  std::size_t outputs;
  bool accumulate;
};
inline constexpr std::size_t kMatmulScratchFloats = 8 * 1024;

// Activations as three bfloat16 terms each for tile_matmul, exact above 1e-38. A cell has 16 rows
// and 32 inputs: kSplitParts times [16 pairs of inputs][16 rows]; rows past the last are not
// written. Item: a cell, which is (group of 16 rows) * (cols / 32) + (inputs / 32).
struct SplitArgs {
  ConstRows x;
  std::size_t rows;
  std::size_t cols;  // a multiple of 32
  std::byte* y;      // split_bytes
};
inline constexpr std::size_t kSplitCellRows = 16;
inline constexpr std::size_t kSplitCellInputs = 32;
inline constexpr std::size_t kSplitParts = 3;
inline constexpr std::size_t kSplitCellBytes = kSplitParts * kSplitCellRows * kSplitCellInputs * 2;
constexpr std::size_t split_cells(std::size_t rows, std::size_t cols) {
  return (rows + kSplitCellRows - 1) / kSplitCellRows * (cols / kSplitCellInputs);
}

// Item: an output column; work begins at multiples of 16. Products are exact and sums float32, in
// one order for every row count; it differs from matmul's order.
struct TileMatmulArgs {
  const std::byte* x;       // output of split, [rows, inputs]
  const std::byte* weight;  // bfloat16, [outputs, inputs]
  const float* bias;        // null: none
  Rows y;                   // [rows, outputs]
  std::size_t rows;
  std::size_t inputs;  // a multiple of 32
  bool accumulate;
};

// Activations for int8_matmul: x_i = scale * q_i with |q_i| <= 127, one scale per 32 elements,
// rounded to nearest. The layout depends on the instruction set. Item: a row. A scale is NaN if one
// of its elements is infinite or NaN.
struct QuantizeArgs {
  ConstRows x;
  std::size_t cols;  // a multiple of 32
  std::byte* y;
  std::size_t y_stride;  // bytes; quantized_row_bytes
};
constexpr std::size_t quantized_row_bytes(std::size_t cols) {
  // At most 2.375 bytes per element. An odd number of cache lines, so that rows map to different
  // cache sets.
  return ((2 * cols + cols / 2 + 64 + 64) / 128 * 2 + 1) * 64;
}

// Item: a panel (packed.h) of outputs. Sums are exact over blocks of 32, then float32 in one order,
// for every row count and instruction set.
struct Int8MatmulArgs {
  const std::byte* x;  // output of quantize, [rows, inputs]
  std::size_t x_stride;
  DType type;
  const std::byte* panels;
  const float* bias;  // null: none
  Rows y;             // [rows, outputs]
  std::size_t rows;
  std::size_t inputs;
  std::size_t outputs;
  bool accumulate;
};
inline constexpr std::size_t kInt8MatmulScratchFloats = 16 * 1024;

// Item: a row.
struct RopeArgs {
  Rows x;
  const std::uint32_t* positions;
  ConstRows cos_sin;
  std::size_t cols;
  std::size_t head_dim;
  std::size_t rotated;  // dimensions of each head
  bool pairs;           // RopeStyle::pairs, not halves
};

// Rounds to nearest; finite values stay finite in f16. Item: a row.
struct StoreArgs {
  ConstRows x;
  Cache cache;
  Pages pages;
  std::size_t first;  // slot of row 0
  std::size_t cols;
};

struct Heads {
  std::size_t kv_heads;
  std::size_t group;  // query heads per key-value head
  std::size_t head_dim;
};

// Rows per tile; they share each block of the prefix, so that keys and values are read from the
// cache.
inline constexpr std::size_t kAttentionTileRows = 8;
inline constexpr std::size_t kMaskWords = 4;  // 64 bits each

// Item: a key-value head of a tile of rows: tile * kv_heads + kv_head.
struct AttentionArgs {
  ConstRows q;
  ConstCache keys;
  ConstCache values;  // same type as keys
  Pages pages;
  std::size_t rows;
  std::size_t prefix;
  const std::uint64_t* masks;  // [rows, kMaskWords], or null: the prefix alone
  Heads heads;
  Rows y;
  float scale;
  std::uint32_t window;            // 0: none
  const std::uint32_t* positions;  // [rows], if there is a window
  const float* sinks;              // [query heads], or null
};
inline std::size_t attention_items(std::size_t rows, const Heads& heads) {
  return (rows + kAttentionTileRows - 1) / kAttentionTileRows * heads.kv_heads;
}
// For attention and group attention: a tile's queries and weighted sums of values, and one block's
// keys and values. Each query adds two floats and a block of scores.
inline std::size_t attention_scratch_floats(const Heads& heads) {
  return kAttentionTileRows * heads.group * (2 * (heads.head_dim + 15) + 2 + 64) +
         2 * 64 * (heads.head_dim + 15);
}

// Item: a key-value head of a group: group * kv_heads + kv_head.
struct GroupAttentionArgs {
  ConstRows q;
  ConstRows k;
  ConstRows v;
  std::size_t group_rows;
  Heads heads;
  Rows y;
};

// Item: a row.
struct GateArgs {
  ConstRows gate;
  ConstRows up;
  Rows y;
  std::size_t cols;
  bool one_gate;  // per row
  Activation activation;
};

// Item: a row.
struct ScaleArgs {
  Rows x;
  std::size_t cols;
  float factor;
};

// Item: a row.
struct SoftCapArgs {
  Rows x;
  std::size_t cols;
  float cap;
};

// Item: a column, so that the moves of each column keep their order.
struct CompactArgs {
  Cache cache;
  Pages pages;
  std::size_t first;
  const std::uint32_t* slots;
  std::size_t slot_count;
};

// Item: a slot. keys and values: one cache per layer, kv_heads * head_dim columns, all of one type.
struct GatherLayersArgs {
  const ConstCache* keys;
  const ConstCache* values;
  Pages pages;
  std::size_t layers;
  const std::uint32_t* slots;
  Heads heads;
  bool pairs;
  Rows y;
};

// Item: a group.
struct GroupMeanArgs {
  ConstRows x;
  std::size_t group_rows;
  std::size_t cols;
  Rows y;
};

// A row segment of at most kTopKSegment columns: its best, and sum_i e^(x[i] - shift).
inline constexpr std::size_t kTopKMax = 256;
inline constexpr std::size_t kTopKSegment = 4096;
struct TopKPart {
  std::size_t count;
  double exp_sum;
  float shift;
  float values[kTopKMax];
  std::uint32_t indices[kTopKMax];
};
constexpr std::size_t top_k_segments(std::size_t cols) {
  return (cols + kTopKSegment - 1) / kTopKSegment;
}

// Item of top_k_segment, which runs first: row * segments + segment; of top_k: a row. NaN sorts
// lowest.
struct TopKArgs {
  ConstRows logits;
  std::size_t cols;
  std::size_t k;
  TopKPart* parts;  // [rows, segments]
  std::uint32_t* tokens;
  float* log_probs;
};

// Item: a row. NaN sorts lowest.
struct ArgmaxArgs {
  ConstRows logits;
  std::size_t cols;
  std::uint32_t* tokens;
};

// Rows of one sequence in a recurrent operation, as RecurrentRows.
struct Recurrent {
  std::size_t first;  // of its rows in the call
  std::size_t rows;
  std::size_t settled;
  std::size_t kept_first;  // row of `kept` for the first unsettled row
  Rows state;
  Rows kept;
  const std::uint32_t* pending;
  std::size_t pending_count;
  const std::uint32_t* parents;

  std::size_t kept_end() const { return kept_first + rows - settled; }
  // Rows of `kept` from kept_first on are this call's.
  std::size_t row_of(std::size_t kept_row) const { return settled + kept_row - kept_first; }
};
inline constexpr std::uint32_t kStateParent = 0xFFFFFFFF;  // kNoParent
inline constexpr std::size_t kRecurrentRowsMax = 256;

// Columns per item share the search for a row's ancestors.
inline constexpr std::size_t kConvolutionCols = 256;
inline constexpr std::size_t kConvolutionTapsMax = 8;
constexpr std::size_t convolution_parts(std::size_t cols) {
  return (cols + kConvolutionCols - 1) / kConvolutionCols;
}

// Item: columns of a sequence: sequence * convolution_parts + part.
struct ConvolutionArgs {
  ConstRows x;
  const float* weight;  // [cols, taps]
  std::size_t taps;
  bool silu;  // or identity
  Rows y;
  std::size_t cols;
  const Recurrent* sequences;
};

// Item: a key head of a sequence, with its value heads: sequence * key_heads + key_head. Work needs
// scratch of delta_rule_scratch_floats.
struct DeltaRuleArgs {
  ConstRows qkv;
  ConstRows alpha;
  ConstRows beta;
  const float* decay;
  const float* time_bias;
  std::size_t key_heads;
  std::size_t value_heads;
  std::size_t dim;
  float epsilon;
  Rows y;
  const Recurrent* sequences;
};
// One head's state in blocks of 16 columns, [dim, 16] each, with a gap so that they do not share a
// set of the cache.
constexpr std::size_t delta_rule_block_floats(std::size_t dim) {
  return (dim + 1) * 16;
}
// States kept within a draft, after rows from which several continue. Beyond it, a row's path is
// computed again.
inline constexpr std::size_t kDeltaRuleSavedStates = 7;
// Divided queries and keys of all rows, a head's state, and copies of one block of it.
constexpr std::size_t delta_rule_scratch_floats(std::size_t dim) {
  return kRecurrentRowsMax * 2 * dim +
         ((dim + 15) / 16 + 1 + kDeltaRuleSavedStates) * delta_rule_block_floats(dim);
}

// One instruction set's kernels.
struct Kernels {
  const char* name;   // instruction set, as in CMakeLists.txt
  bool signed_bytes;  // in panels of q8_0 (packed.h)
  void (*embed)(const EmbedArgs&, const Work&);
  void (*rms_norm)(const RmsNormArgs&, const Work&);
  void (*interleave)(const InterleaveArgs&, const Work&);
  void (*matmul)(const MatmulArgs&, const Work&);
  void (*quantize)(const QuantizeArgs&, const Work&);
  void (*int8_matmul)(const Int8MatmulArgs&, const Work&);
  void (*split)(const SplitArgs&, const Work&);             // null without AMX bfloat16 tiles
  void (*tile_matmul)(const TileMatmulArgs&, const Work&);  // null likewise
  void (*rope)(const RopeArgs&, const Work&);
  void (*store)(const StoreArgs&, const Work&);
  void (*attention)(const AttentionArgs&, const Work&);
  void (*group_attention)(const GroupAttentionArgs&, const Work&);
  void (*gate)(const GateArgs&, const Work&);
  void (*compact)(const CompactArgs&, const Work&);
  void (*gather_layers)(const GatherLayersArgs&, const Work&);
  void (*group_mean)(const GroupMeanArgs&, const Work&);
  void (*top_k_segment)(const TopKArgs&, const Work&);
  void (*top_k)(const TopKArgs&, const Work&);
  void (*argmax)(const ArgmaxArgs&, const Work&);
  void (*scale)(const ScaleArgs&, const Work&);
  void (*soft_cap)(const SoftCapArgs&, const Work&);
  void (*convolve)(const ConvolutionArgs&, const Work&);
  void (*delta_rule)(const DeltaRuleArgs&, const Work&);

  // For measurements: independent multiply-add chains of float32, and of int8 as in int8_matmul, at
  // full speed. Return the operation count. `sink` takes 16 floats. short_chains: int8 with weights
  // of at most six bits, if that is faster, else null. tile_chains: int8, and bfloat16, on whole
  // tile registers; null for sets without them.
  std::size_t (*fma_chains)(std::size_t rounds, float* sink);
  std::size_t (*int8_chains)(std::size_t rounds, float* sink);
  std::size_t (*short_chains)(std::size_t rounds, float* sink);
  std::size_t (*tile_chains)(std::size_t rounds, float* sink);
  std::size_t (*bf16_tile_chains)(std::size_t rounds, float* sink);
  // Reads memory, `bytes` a multiple of 64 KiB, and prefetches one chunk of chunk_bytes ahead, a
  // divisor of that; 0: no software prefetch.
  void (*read_stream)(const std::byte* from, std::size_t bytes, std::size_t chunk_bytes,
                      float* sink);
};

// Kernels that this build has and this processor runs, slowest first; never empty. Null-terminated.
const Kernels* const* available_kernels();
// The last of them.
const Kernels& best_kernels();

}  // namespace edgedraft::cpu
