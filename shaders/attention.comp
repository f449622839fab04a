#version 450
// One workgroup per few rows, few query heads of a key-value head, and split of their visible
// slots; y enumerates splits, then tiles.
#extension GL_GOOGLE_include_directive : require
#ifdef NARROW_STORAGE
#extension GL_EXT_shader_16bit_storage : require
#endif
#ifdef SUBGROUPS
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#include "common.glsl"
#include "int8.glsl"
#include "lanes.glsl"

layout(local_size_x = kAttentionWorkgroup) in;
layout(push_constant) uniform Push { AttentionParams p; };
layout(std430, binding = 1) readonly buffer Q { float q[]; };
layout(std430, binding = 2) readonly buffer K { float k[]; };
layout(std430, binding = 2) readonly buffer KVectors { vec4 k_vectors[]; };
layout(std430, binding = 2) readonly buffer KWords { uint k_words[]; };
layout(std430, binding = 3) readonly buffer V { float v[]; };
layout(std430, binding = 3) readonly buffer VVectors { vec4 v_vectors[]; };
layout(std430, binding = 3) readonly buffer VWords { uint v_words[]; };
#ifdef NARROW_STORAGE
layout(std430, binding = 2) readonly buffer HalfK { float16_t half_k[]; };
layout(std430, binding = 2) readonly buffer HalfKVectors { f16vec4 half_k_vectors[]; };
layout(std430, binding = 3) readonly buffer HalfV { float16_t half_v[]; };
layout(std430, binding = 3) readonly buffer HalfVVectors { f16vec4 half_v_vectors[]; };
#endif
layout(std430, binding = 4) writeonly buffer Y { float y[]; };
layout(std430, binding = 5) readonly buffer Sinks { float sinks[]; };

#include "masks.glsl"

float sink(uint head) { return sinks[p.sinks_offset + head]; }

#include "attend.glsl"

void main() {
  uint split = gl_WorkGroupID.y % p.splits;
  uint first_row = gl_WorkGroupID.y / p.splits * ROWS;
  uint row_count = min(ROWS, p.rows - first_row);
  uint behind[ROWS];
  uint hidden[ROWS];
  for (uint r = 0; r < ROWS; ++r) {
    behind[r] = r < row_count ? seen_behind(first_row + r) : 0;
    hidden[r] = r < row_count ? hidden_slots(first_row + r) : 0;
  }
  attend(first_row, row_count, gl_WorkGroupID.x * HEADS, 0, call[p.prefix_at], behind, hidden,
         split, split * kAttentionSplit, kAttentionSplit);
}
