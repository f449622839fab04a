#version 450
// One invocation per element; y enumerates rows.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = kRowWorkgroup) in;
layout(push_constant) uniform Push { SoftCapParams p; };
layout(std430, binding = 1) buffer X { float x[]; };

void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i >= p.cols) return;
  uint at = p.x_offset + gl_WorkGroupID.y * p.x_stride + i;
  precise float v = x[at] / p.cap;
  // tanh |v| = (1 - e^-2|v|) / (1 + e^-2|v|)
  float e = exact_exp(-2.0 * abs(v));
  precise float capped = p.cap * ((1.0 - e) / (1.0 + e));
  x[at] = v < 0.0 ? -capped : capped;
}
