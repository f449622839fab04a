#version 450
// One invocation per column, or per word of int8; it moves elements row by row, since rows may
// overlap.
#extension GL_GOOGLE_include_directive : require
#ifdef NARROW_STORAGE
#extension GL_EXT_shader_16bit_storage : require
#endif
#include "common.glsl"

layout(local_size_x = kRowWorkgroup) in;
layout(constant_id = 0) const bool HALVES = false;
layout(push_constant) uniform Push { CompactParams p; };
layout(std430, binding = 1) buffer Cache { uint cache[]; };

#ifdef NARROW_STORAGE
layout(std430, binding = 1) buffer HalfCache { uint16_t half_cache[]; };
#endif

void main() {
  uint column = gl_GlobalInvocationID.x;
  if (column >= p.cols) return;
  uint first = call[p.first_at];
  uint count = call[p.first_at + 1];
  for (uint i = 0; i < count; ++i) {
    uint slot = call[p.first_at + 2 + i];
    uint to = p.cache_offset + (first + i) * p.cache_stride + column;
    uint from = p.cache_offset + slot * p.cache_stride + column;
#ifdef NARROW_STORAGE
    if (HALVES) {
      half_cache[to] = half_cache[from];
      continue;
    }
#endif
    cache[to] = cache[from];
  }
}
