#version 450
// One invocation per element; y enumerates rows. With NARROW_STORAGE the cache may be float16.
#extension GL_GOOGLE_include_directive : require
#ifdef NARROW_STORAGE
#extension GL_EXT_shader_16bit_storage : require
#endif
#include "common.glsl"

layout(local_size_x = kRowWorkgroup) in;
layout(constant_id = 0) const bool HALVES = false;
layout(push_constant) uniform Push { StoreParams p; };
layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(std430, binding = 2) writeonly buffer Cache { float cache[]; };

#ifdef NARROW_STORAGE
layout(std430, binding = 2) writeonly buffer HalfCache { uint16_t half_cache[]; };

// x as float16: to nearest, ties to even; finite values beyond its range become its largest value.
// Built-in conversions may round either way.
uint half_bits(float x) {
  uint bits = floatBitsToUint(x);
  uint sign = bits >> 16 & 0x8000u;
  bits &= 0x7FFFFFFFu;
  if (bits > 0x7F800000u) return sign | 0x7E00u;   // NaN
  if (bits == 0x7F800000u) return sign | 0x7C00u;  // infinity
  if (bits >= 0x477FE000u) return sign | 0x7BFFu;  // 65504
  if (bits >= 0x38800000u) {                       // 2^-14, the smallest normal number
    bits += 0xFFFu + (bits >> 13 & 1u);
    return sign | bits - 0x38000000u >> 13;
  }
  uint exponent = bits >> 23;
  if (exponent < 102) return sign;  // less than half of the smallest value, 2^-24
  uint shift = 126 - exponent;
  uint mantissa = bits & 0x7FFFFFu | 0x800000u;
  uint whole = mantissa >> shift;
  uint rest = mantissa & (1u << shift) - 1;
  uint tie = 1u << shift - 1;
  if (rest > tie || (rest == tie && (whole & 1u) != 0)) ++whole;
  return sign | whole;
}
#endif

void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i >= p.cols) return;
  uint row = gl_WorkGroupID.y;
  uint to = p.cache_offset + (call[p.first_at] + row) * p.cache_stride + i;
  float number = x[p.x_offset + row * p.x_stride + i];
#ifdef NARROW_STORAGE
  if (HALVES) {
    half_cache[to] = uint16_t(half_bits(number));
    return;
  }
#endif
  cache[to] = number;
}
