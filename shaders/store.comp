#version 450
// One invocation a number; a row each in y.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = kRowWorkgroup) in;
layout(push_constant) uniform Push { StoreParams p; };
layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(std430, binding = 2) writeonly buffer Cache { float cache[]; };

void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i >= p.cols) return;
  uint row = gl_WorkGroupID.y;
  cache[p.cache_offset + (call[p.first_at] + row) * p.cache_stride + i] =
      x[p.x_offset + row * p.x_stride + i];
}
