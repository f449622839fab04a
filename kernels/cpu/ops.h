#pragma once

#include <cstddef>
#include <cstdint>

// The CPU form of each operation of shared/runtime/backend.h, where the formulas stand: raw
// pointers in, nothing else. Every kernel computes a part of its output, named by Work, so that
// threads share a call by splitting it; what it writes does not depend on the split.
//
// Each source is compiled once for every instruction set (CMakeLists.txt); `best_kernels` picks.
namespace edgedraft::cpu {

enum class WeightType : std::uint8_t { f32, f16, bf16, q8_0, q4_0, q4_k, q5_k, q6_k };

// Row r starts at data + r * stride floats.
struct Rows {
  float* data;
  std::size_t stride;
};
struct ConstRows {
  const float* data;
  std::size_t stride;
};

// Items begin..end-1 of an operation; what an item is, each Args says.
struct Work {
  std::size_t begin;
  std::size_t end;
  float* scratch;  // this thread's own, 64-byte aligned; its size, where a kernel uses it, is below
};

// Item: a token.
struct EmbedArgs {
  WeightType type;
  const std::byte* table;  // [vocabulary, cols]
  const std::uint32_t* tokens;
  std::size_t cols;
  Rows y;
};

// Item: a row.
struct RmsNormArgs {
  ConstRows x;
  const float* weight;
  Rows y;
  std::size_t cols;
  float epsilon;
};

// Item: an output column. Sums run in 16 lanes over the inputs, then one tree over the lanes, for
// every number of rows and every instruction set.
struct MatmulArgs {
  ConstRows x;  // [rows, inputs]
  WeightType type;
  const std::byte* weight;  // [outputs, inputs]
  const float* bias;        // null for none
  Rows y;                   // [rows, outputs]
  std::size_t rows;
  std::size_t inputs;
  bool accumulate;
};
inline constexpr std::size_t kMatmulScratchFloats = 104 * 1024;

// Item: a row.
struct RopeArgs {
  Rows x;
  const std::uint32_t* positions;
  ConstRows cos_sin;
  std::size_t cols;
  std::size_t head_dim;
  bool pairs;  // RopeStyle::pairs, not halves
};

struct Heads {
  std::size_t kv_heads;
  std::size_t group;  // query heads a key-value head
  std::size_t head_dim;
};

// Rows of a tile go through the shared prefix together, so that keys and values come from the
// cache.
inline constexpr std::size_t kAttentionTileRows = 8;
inline constexpr std::size_t kMaskWords = 4;  // 64 bits each

// Item: a key-value head of a tile of rows: tile * kv_heads + kv_head.
struct AttentionArgs {
  ConstRows q;
  ConstRows keys;
  ConstRows values;
  std::size_t rows;
  std::size_t prefix;
  const std::uint64_t* masks;  // [rows, kMaskWords], or null: the prefix alone
  Heads heads;
  Rows y;
};
inline std::size_t attention_items(std::size_t rows, const Heads& heads) {
  return (rows + kAttentionTileRows - 1) / kAttentionTileRows * heads.kv_heads;
}
// For attention and for group attention: a tile's queries and weighted sums of values, with two
// numbers and a block of scores a query.
inline std::size_t attention_scratch_floats(const Heads& heads) {
  return kAttentionTileRows * heads.group * (2 * (heads.head_dim + 15) + 2 + 64);
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
struct SwigluArgs {
  ConstRows gate;
  ConstRows up;
  Rows y;
  std::size_t cols;
};

// Item: a column, so that the moves of each column keep their order.
struct CompactArgs {
  Rows cache;
  std::size_t first;
  const std::uint32_t* slots;
  std::size_t slot_count;
};

// Item: a slot. keys and values: a matrix a layer, [capacity, kv_heads * head_dim].
struct GatherLayersArgs {
  const ConstRows* keys;
  const ConstRows* values;
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

// Item: a row. NaN counts as the smallest number.
struct TopKArgs {
  ConstRows logits;
  std::size_t cols;
  std::size_t k;
  std::uint32_t* tokens;
  float* log_probs;
};
struct ArgmaxArgs {
  ConstRows logits;
  std::size_t cols;
  std::uint32_t* tokens;
};

// One instruction set's kernels.
struct Kernels {
  const char* name;  // "baseline", "avx2" or "avx512"
  void (*embed)(const EmbedArgs&, const Work&);
  void (*rms_norm)(const RmsNormArgs&, const Work&);
  void (*matmul)(const MatmulArgs&, const Work&);
  void (*rope)(const RopeArgs&, const Work&);
  void (*attention)(const AttentionArgs&, const Work&);
  void (*group_attention)(const GroupAttentionArgs&, const Work&);
  void (*swiglu)(const SwigluArgs&, const Work&);
  void (*compact)(const CompactArgs&, const Work&);
  void (*gather_layers)(const GatherLayersArgs&, const Work&);
  void (*group_mean)(const GroupMeanArgs&, const Work&);
  void (*top_k)(const TopKArgs&, const Work&);
  void (*argmax)(const ArgmaxArgs&, const Work&);

  // For measurements: independent chains of multiplications and additions, as fast as they go.
  // Returns their number. `sink` takes 16 floats.
  std::size_t (*fma_chains)(std::size_t rounds, float* sink);
};

// What this build has and this processor runs, slowest first; never empty. Null-terminated.
const Kernels* const* available_kernels();
// The last of them.
const Kernels& best_kernels();

}  // namespace edgedraft::cpu
