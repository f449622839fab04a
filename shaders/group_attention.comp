#version 450
// One workgroup a row and a few query heads of a key-value head, as in attention, over the rows of its group.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = kAttentionWorkgroup) in;
layout(push_constant) uniform Push { GroupAttentionParams p; };
layout(std430, binding = 1) readonly buffer Q { float q[]; };
layout(std430, binding = 2) readonly buffer K { float k[]; };
layout(std430, binding = 3) readonly buffer V { float v[]; };
layout(std430, binding = 4) writeonly buffer Y { float y[]; };

#include "attend.glsl"

void main() {
  uint row = gl_WorkGroupID.y;
  attend(row, gl_WorkGroupID.x * HEADS, row - row % p.group_rows, p.group_rows, p.group_rows);
}
