#version 450
// One invocation per element; y enumerates rows.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = kRowWorkgroup) in;
layout(push_constant) uniform Push { ScaleParams p; };
layout(std430, binding = 1) buffer X { float x[]; };

void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i >= p.cols) return;
  uint at = p.x_offset + gl_WorkGroupID.y * p.x_stride + i;
  precise float scaled = x[at] * p.factor;
  x[at] = scaled;
}
