#version 450
// Attention over the rows of a group. Each workgroup handles one row and a few query heads of one
// key-value head, over the whole group, since groups are small.
#extension GL_GOOGLE_include_directive : require
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
layout(std430, binding = 4) writeonly buffer Y { float y[]; };

uint visible(uint row, uint i) { return 0; }  // all rows of a group belong to the prefix
float sink(uint head) { return 0.0; }         // never called

#include "attend.glsl"

void main() {
  uint row = gl_WorkGroupID.y;
  uint none[ROWS];
  for (uint r = 0; r < ROWS; ++r) none[r] = 0;
  attend(row, 1, gl_WorkGroupID.x * HEADS, row - row % p.group_rows, p.group_rows, none, none, 0, 0,
         p.group_rows);
}
