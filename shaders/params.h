// Shader parameters, declared once for GLSL and C++. Push constants hold the fixed values of a
// recorded command buffer: shapes, and matrix offsets in their bindings. Per-call data (tokens,
// positions, masks, the prefix, the first slot) is in the call buffer, binding 0, an array of uint.
// Members named *_at are indices into it.
//
// Offsets and strides are in floats, for caches in elements of the cache type, unless their name
// says otherwise; for int8 in words.
#ifndef EDGEDRAFT_SHADERS_PARAMS_H
#define EDGEDRAFT_SHADERS_PARAMS_H

#ifdef __cplusplus
#include <cstdint>
namespace edgedraft::shaders {
using uint = std::uint32_t;
#endif

// Element types of weights as specialization constants.
const uint kTypeF32 = 0;
const uint kTypeF16 = 1;
const uint kTypeBf16 = 2;
const uint kTypeQ8_0 = 3;
const uint kTypeQ4_0 = 4;
const uint kTypeQ4_1 = 5;
const uint kTypeQ5_0 = 6;
const uint kTypeQ5_1 = 7;
const uint kTypeQ4_K = 8;
const uint kTypeQ5_K = 9;
const uint kTypeQ6_K = 10;
const uint kTypeQ2_K = 11;
const uint kTypeQ3_K = 12;  // coded from here on
const uint kTypeIq4Xs = 13;
const uint kTypeIq3S = 14;
const uint kTypeIq3Xxs = 15;
const uint kTypeIq2S = 16;
const uint kTypeIq2Xs = 17;
const uint kTypeIq2Xxs = 18;
const uint kTypeIq4Nl = 19;  // blocks of 32 from here on
const uint kTypeMxfp4 = 20;
const uint kTypeI8 = 21;  // of keys and values

// Bindings after the call buffer.
const uint kBindingsMax = 6;
// Workgroup size that every Vulkan device supports.
const uint kWorkgroupMax = 128;
// Shared memory that every Vulkan device supports.
const uint kSharedBytesMax = 16384;

// Lanes combined first in reductions (lanes.glsl).
const uint kNeighbours = 8;

const uint kRowWorkgroup = 128;       // for operations over a row
const uint kAttentionWorkgroup = 64;  // also the slots per step
const uint kAttentionHeadsMax = 4;    // per workgroup
const uint kAttentionRowsMax = 4;     // per workgroup
// Visible slots per split: a multiple of a workgroup's step, and fixed so that results do not
// depend on the rest of the call. combine.comp adds the splits.
const uint kAttentionSplit = 128;
const uint kMaskWords = 8;
const uint kQuantizeWorkgroup = 32;
const uint kQuantizeGroup = 32;  // activations per scale
const uint kTopKWorkgroup = 64;
const uint kTopKSegment = 1024;    // candidates per workgroup
const uint kArgmaxSegment = 2048;  // elements a workgroup of argmax reads in the first pass
const uint kNoToken = 0xFFFFFFFFu;
const uint kNoRow = 0xFFFFFFFFu;  // the state before a path
const uint kRecurrentRowsMax = 256;
const uint kConvolutionTapsMax = 8;
const uint kDeltaWorkgroup = 64;  // eight lanes per column of a state, or per head of q and k
const uint kExpertsMax = 1024;    // logits of a row of route
const uint kExpertsUsedMax = 32;

struct EmbedParams {
  uint table_offset_bytes;
  uint row_bytes;
  uint first_token;  // first token of the bound part of the table
  uint token_count;
  uint cols;
  uint y_offset;
  uint y_stride;
  uint tokens_at;
};

struct RmsNormParams {
  uint x_offset;
  uint x_stride;
  uint weight_offset;
  uint y_offset;
  uint y_stride;
  uint cols;  // of a group
  float epsilon;
  uint accumulates;
};

// Rows of int8 elements, four per word, lowest first, followed by one float32 scale per group.
struct QuantizeParams {
  uint x_offset;
  uint x_stride;
  uint cols;
  uint y_stride;  // in words
};

// For matmul and int8_matmul. The latter reads x as written by quantize.
struct MatmulParams {
  uint x_offset;  // int8_matmul: in words
  uint x_stride;
  uint weight_offset;  // in bytes
  uint scale_offset;   // in float16 elements
  uint row_bytes;      // row size of the weight, for types decoded one by one
  uint bias_offset;
  uint y_offset;
  uint y_stride;
  uint rows;
  uint inputs;
  uint outputs;
  uint has_bias;
  uint accumulates;
  // For matmuls with experts, whose y has one row per pair of a row and an expert.
  uint experts_offset;
  uint experts_stride;
  uint first_row;    // first row of the bound part of the stack
  uint part_rows;    // its rows
  uint pairs_a_row;  // pairs per row of x
};

struct RopeParams {
  uint x_offset;
  uint x_stride;
  uint table_offset;
  uint table_stride;
  uint head_dim;
  uint rotated;     // dimensions of each head
  uint pair_count;  // per row
  uint pairs;       // 1: RopeStyle::pairs
  uint positions_at;
};

struct StoreParams {
  uint x_offset;
  uint x_stride;
  uint cache_offset;
  uint cache_stride;
  uint cols;
  uint first_at;
};

// For attention and group_attention.
struct AttentionParams {
  uint q_offset;
  uint q_stride;
  uint k_offset;
  uint k_stride;
  uint v_offset;
  uint v_stride;
  uint y_offset;
  uint y_stride;
  uint rows;
  uint group;  // query heads per key-value head
  float scale;
  uint prefix_at;
  uint masks_at;    // kMaskWords per row; 0: no row has a mask
  uint splits;      // number of workgroups that divide a row's slots; 1: not divided
  uint group_rows;  // for group_attention
  uint begins_at;   // first index in each row's window; 0: no windows
  uint sinks_offset;
};

// The largest score and the sum of weights per row, query head and split (splits innermost),
// followed by the sums of weighted values, head_dim each.
struct CombineParams {
  uint y_offset;
  uint y_stride;
  uint rows;
  uint splits;  // capacity
  uint head_dim;
  uint prefix_at;
  uint masks_at;
  uint begins_at;
  uint sinks_offset;
};

// Activations as specialization constants.
const uint kActivationSilu = 0;
const uint kActivationGelu = 1;
const uint kActivationClamped = 2;
const uint kActivationSigmoid = 3;
const uint kActivationIdentity = 4;

struct GateParams {
  uint gate_offset;
  uint gate_stride;
  uint up_offset;
  uint up_stride;
  uint y_offset;
  uint y_stride;
  uint cols;
};

struct CompactParams {
  uint cache_offset;
  uint cache_stride;
  uint cols;
  uint first_at;  // index of: first slot to fill, slot count, slots
};

struct GatherLayersParams {
  uint k_offset;
  uint k_stride;
  uint v_offset;
  uint v_stride;
  uint y_offset;
  uint y_stride;
  uint head_dim;
  uint kv_cols;
  uint layer;
  uint layers;
  uint pairs;
  uint slots_at;
};

struct GroupMeanParams {
  uint x_offset;
  uint x_stride;
  uint y_offset;
  uint y_stride;
  uint cols;
  uint group_rows;
};

// Offsets and strides of candidates and sums are in pairs.
struct TopKParams {
  uint x_offset;  // offset of logits or candidates
  uint x_stride;
  uint count;  // per row
  uint k;
  uint y_offset;
  uint y_stride;
  uint sums_offset;
  uint sums_stride;    // segments of a row's logits
  uint totals_offset;  // offset of the last pass's sums, one per row
};

// Offsets and strides of candidates are in pairs.
struct ArgmaxParams {
  uint x_offset;  // offset of logits or candidates
  uint x_stride;
  uint count;     // per row
  uint y_offset;  // offset of candidates or tokens
};

struct ScaleParams {
  uint x_offset;
  uint x_stride;
  uint cols;
  float factor;
};

struct SoftCapParams {
  uint x_offset;
  uint x_stride;
  uint cols;
  float cap;
};

// Words of a recurrent operation in the call buffer, at rows_at: the count of settled rows, the
// count of pending rows, the row of `kept` for the first unsettled row, the parents of kept rows,
// the pending rows.
const uint kSettledWord = 0;
const uint kPendingCountWord = 1;
const uint kKeptFirstWord = 2;
const uint kParentWords = 3;

struct ConvolutionParams {
  uint x_offset;
  uint x_stride;
  uint weight_offset;
  uint taps;
  uint is_silu;
  uint state_offset;
  uint state_stride;
  uint kept_offset;
  uint kept_stride;
  uint y_offset;
  uint y_stride;
  uint rows;
  uint cols;
  uint rows_at;
};

struct FoldInputsParams {
  uint x_offset;
  uint x_stride;
  uint taps;
  uint state_offset;
  uint state_stride;
  uint kept_offset;
  uint kept_stride;
  uint rows;
  uint cols;
  uint rows_at;
};

// A row of the scratch memory of a delta rule has divided q, divided k, g and b.
struct DeltaDivideParams {
  uint x_offset;
  uint x_stride;
  uint y_stride;
  uint heads;  // of q and k together
  float epsilon;
};

struct DeltaGatesParams {
  uint alpha_offset;
  uint alpha_stride;
  uint beta_offset;
  uint beta_stride;
  uint decay_offset;
  uint time_bias_offset;
  uint y_offset;
  uint y_stride;
  uint value_heads;
};

struct DeltaRuleParams {
  uint qkv_offset;
  uint qkv_stride;
  uint scratch_offset;
  uint scratch_stride;
  uint kept_offset;
  uint kept_stride;
  uint state_offset;
  uint state_stride;
  uint y_offset;
  uint y_stride;
  uint key_heads;
  uint value_heads;
  uint rows;
  uint rows_at;
  float scale;
};

struct DeltaKeepParams {
  uint qkv_offset;
  uint qkv_stride;
  uint scratch_offset;
  uint scratch_stride;
  uint kept_offset;
  uint kept_stride;
  uint key_cols;
  uint value_cols;
  uint value_heads;
  uint rows;
  uint rows_at;
};

struct RouteParams {
  uint x_offset;
  uint x_stride;
  uint count;  // per row
  uint used;
  uint experts_offset;
  uint experts_stride;
  uint weights_offset;
  uint weights_stride;
};

struct MixParams {
  uint x_offset;
  uint x_stride;
  uint weights_offset;
  uint weights_stride;
  uint y_offset;
  uint y_stride;
  uint cols;
  uint used;
};

#ifdef __cplusplus
}  // namespace edgedraft::shaders
#endif

#endif
