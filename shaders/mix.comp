#version 450
// One invocation per column; y enumerates rows.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = kRowWorkgroup) in;
layout(push_constant) uniform Push { MixParams p; };
layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(std430, binding = 2) readonly buffer Weights { float weights[]; };
layout(std430, binding = 3) buffer Y { float y[]; };

void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i >= p.cols) return;
  uint row = gl_WorkGroupID.y;
  uint from = p.x_offset + row * p.used * p.x_stride + i;
  uint weights_from = p.weights_offset + row * p.weights_stride;
  precise float sum = 0.0;
  for (uint u = 0; u < p.used; ++u)
    sum = sum + weights[weights_from + u] * x[from + u * p.x_stride];
  uint at = p.y_offset + row * p.y_stride + i;
  precise float total = y[at] + sum;
  y[at] = total;
}
