#version 450
// One invocation per column; y enumerates groups.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = kRowWorkgroup) in;
layout(push_constant) uniform Push { GroupMeanParams p; };
layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(std430, binding = 2) writeonly buffer Y { float y[]; };

void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i >= p.cols) return;
  uint from = p.x_offset + gl_WorkGroupID.y * p.group_rows * p.x_stride + i;
  precise float sum = 0.0;
  for (uint r = 0; r < p.group_rows; ++r) sum = sum + x[from + r * p.x_stride];
  sum = sum / float(p.group_rows);
  y[p.y_offset + gl_WorkGroupID.y * p.y_stride + i] = sum;
}
