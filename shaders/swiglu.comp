#version 450
// One invocation per element; y enumerates rows. y may be gate or up.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = kRowWorkgroup) in;
layout(push_constant) uniform Push { SwigluParams p; };
layout(std430, binding = 1) buffer Gate { float gate[]; };
layout(std430, binding = 2) buffer Up { float up[]; };
layout(std430, binding = 3) buffer Y { float y[]; };

void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i >= p.cols) return;
  uint row = gl_WorkGroupID.y;
  float g = gate[p.gate_offset + row * p.gate_stride + i];
  precise float gated = g / (1.0 + exact_exp(-g)) * up[p.up_offset + row * p.up_stride + i];
  y[p.y_offset + row * p.y_stride + i] = gated;
}
