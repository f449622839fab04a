#version 450
// Rounds activations to int8: 32 elements share a scale, their largest magnitude / 127. Four
// elements per lane.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = kQuantizeWorkgroup) in;
layout(push_constant) uniform Push { QuantizeParams p; };
layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(std430, binding = 2) writeonly buffer Y { uint y[]; };

const uint kLanes = kQuantizeGroup / 4;  // per group
shared uint largest_bits[kQuantizeWorkgroup / kLanes];

// The upper 12 bits of x; the rest has 12 bits as well, and products of such values are exact.
float high_part(float x) { return uintBitsToFloat(floatBitsToUint(x) & 0xFFFFF000u); }

// 127 / x, exact to the last place, so that all devices round alike: a built-in quotient may be off
// by 2.5 units. For larger x, intermediate values would be too small to be exact.
float inverse_step(float x) {
  precise float q = 127.0 / x;
  if (x > 1e30) return q;
  float q_high = high_part(q);
  float x_high = high_part(x);
  precise float q_low = q - q_high;
  precise float x_low = x - x_high;
  precise float rest = 127.0 - q_high * x_high;
  rest = rest - q_high * x_low;
  rest = rest - q_low * x_high;
  rest = rest - q_low * x_low;
  precise float better = q + rest / x;
  return better;
}

void main() {
  uint group = gl_LocalInvocationID.x / kLanes;
  bool is_first = gl_LocalInvocationID.x % kLanes == 0;
  uint row = gl_WorkGroupID.y;
  uint first = gl_GlobalInvocationID.x * 4;
  vec4 v = vec4(0.0);
  if (first < p.cols) {  // a row is whole blocks of 32
    uint at = p.x_offset + row * p.x_stride + first;
    v = vec4(x[at], x[at + 1], x[at + 2], x[at + 3]);
  }
  // Bits of magnitudes order like the values; NaN is largest.
  uvec4 bits = floatBitsToUint(v) & 0x7FFFFFFFu;
  if (is_first) largest_bits[group] = 0;
  barrier();
  atomicMax(largest_bits[group], max(max(bits.x, bits.y), max(bits.z, bits.w)));
  barrier();
  float largest = uintBitsToFloat(largest_bits[group]);
  bool is_finite = largest_bits[group] < 0x7F800000u;
  // Smaller ones count as zeros: their inverse would overflow.
  float inverse = is_finite && largest >= 1e-30 ? inverse_step(largest) : 0.0;
  if (first < p.cols) {
    uint word = 0;
    for (uint i = 0; i < 4; ++i) {
      precise float scaled = v[i] * inverse;
      int rounded = inverse != 0.0 ? int(roundEven(scaled)) : 0;
      word |= (uint(rounded) & 0xFFu) << 8 * i;
    }
    y[row * p.y_stride + first / 4] = word;
  }
  if (is_first && first < p.cols) {
    precise float scale = largest / 127.0;
    y[row * p.y_stride + p.cols / 4 + first / kQuantizeGroup] =
        is_finite ? floatBitsToUint(scale) : 0x7FC00000u;
  }
}
