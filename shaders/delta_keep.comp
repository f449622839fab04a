#version 450
// Keeps divided k, v and gates of rows that are not settled. One invocation per element; y
// enumerates rows. After delta_rule.comp, which reads the kept rows of calls before.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = kRowWorkgroup) in;
layout(push_constant) uniform Push { DeltaKeepParams p; };
layout(std430, binding = 1) readonly buffer Qkv { float qkv[]; };
layout(std430, binding = 2) readonly buffer Scratch { float divided[]; };
layout(std430, binding = 3) writeonly buffer Kept { float kept[]; };
#include "recurrent.glsl"

void main() {
  uint i = gl_GlobalInvocationID.x;
  uint row = gl_WorkGroupID.y;
  uint values_end = p.key_cols + p.value_cols;
  if (row < settled_rows() || i >= values_end + 2 * p.value_heads) return;
  uint from = p.scratch_offset + row * p.scratch_stride + p.key_cols;  // k, then gates
  float number;
  if (i < p.key_cols) {
    number = divided[from + i];
  } else if (i < values_end) {
    number = qkv[p.qkv_offset + row * p.qkv_stride + p.key_cols + i];
  } else {
    number = divided[from + i - p.value_cols];
  }
  kept[p.kept_offset + kept_row(row) * p.kept_stride + i] = number;
}
