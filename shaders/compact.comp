#version 450
// One invocation a column, which moves its numbers one row after another: rows may overlap.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = kRowWorkgroup) in;
layout(push_constant) uniform Push { CompactParams p; };
layout(std430, binding = 1) buffer Cache { float cache[]; };

void main() {
  uint column = gl_GlobalInvocationID.x;
  if (column >= p.cols) return;
  uint first = call[p.first_at];
  uint count = call[p.first_at + 1];
  for (uint i = 0; i < count; ++i) {
    uint slot = call[p.first_at + 2 + i];
    cache[p.cache_offset + (first + i) * p.cache_stride + column] =
        cache[p.cache_offset + slot * p.cache_stride + column];
  }
}
