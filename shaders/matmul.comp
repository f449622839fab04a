#version 450
// Matmuls of float32 activations, divided as in product.glsl: lanes take inputs four (q4_0: eight)
// at a time.
//
// NARROW_STORAGE reads 8- and 16-bit elements as stored. FLOAT16 decodes q8_0 and q4_0 in half
// precision. Their integers are exact in it, so results have the same bits.
#extension GL_GOOGLE_include_directive : require
#ifdef SUBGROUPS
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#ifdef NARROW_STORAGE
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#endif
#ifdef FLOAT16
#extension GL_EXT_shader_explicit_arithmetic_types_float16 : require
#endif
#include "common.glsl"
#include "lanes.glsl"
#include "product.glsl"

// True if weights are decoded one by one (K types, rows of odd lengths). Otherwise four at a time:
// q8_0 and q4_0 with separate scales, other types with rows of whole vectors.
layout(constant_id = 2) const bool ONE_BY_ONE = false;
// True if the rows of x are vector-aligned.
layout(constant_id = 3) const bool X_VECTORS = false;
// Aliases of one buffer, as scalars and as vectors.
layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(std430, binding = 1) readonly buffer XVectors { vec4 x_vectors[]; };
layout(std430, binding = 2) readonly buffer Words { uint words[]; };
layout(std430, binding = 2) readonly buffer Words2 { uvec2 words2[]; };
layout(std430, binding = 2) readonly buffer Words4 { uvec4 words4[]; };
#define WEIGHT_WORDS words
#ifdef NARROW_STORAGE
layout(std430, binding = 2) readonly buffer Bytes { uint8_t bytes[]; };
layout(std430, binding = 2) readonly buffer Shorts { uint16_t shorts[]; };
layout(std430, binding = 2) readonly buffer Halves { float16_t halves[]; };
layout(std430, binding = 2) readonly buffer Halves4 { f16vec4 halves4[]; };
#define WEIGHT_BYTES bytes
#define WEIGHT_SHORTS shorts
#define WEIGHT_HALVES halves
#endif
#include "weights.glsl"

vec4 four_of_x(uint row, uint i) {
  uint at = p.x_offset + row * p.x_stride + i;
  if (X_VECTORS) return x_vectors[at >> 2];
  if (!ONE_BY_ONE) return vec4(x[at], x[at + 1], x[at + 2], x[at + 3]);
  vec4 v = vec4(0.0);
  for (uint j = 0; j < 4; ++j) {
    if (i + j < p.inputs) v[j] = x[at + j];
  }
  return v;
}

#ifdef FLOAT16
// Bytes 0 and 2 of a word (0..255), less `bias`. With 0x64 as high byte they are halves from 1024
// on, which are one apart.
vec2 less(uint two, float16_t bias) {
  return vec2(unpackFloat2x16(two | 0x64006400u) - f16vec2(bias));
}
#endif

// The low four bits of each byte, less 8.
vec4 nibbles(uint w) {
#ifdef FLOAT16
  vec2 even = less(w & 0x000F000Fu, 1032.0hf);
  vec2 odd = less(w >> 8 & 0x000F000Fu, 1032.0hf);
  return vec4(even.x, odd.x, even.y, odd.y);
#else
  return vec4(ivec4(uvec4(w) >> ivec4(0, 8, 16, 24) & 15u) - 8);
#endif
}

vec4 signed_bytes(uint w) {
#ifdef FLOAT16
  w ^= 0x80808080u;
  vec2 even = less(w & 0x00FF00FFu, 1152.0hf);
  vec2 odd = less(w >> 8 & 0x00FF00FFu, 1152.0hf);
  return vec4(even.x, odd.x, even.y, odd.y);
#else
  int s = int(w);
  return vec4(s << 24 >> 24, s << 16 >> 24, s << 8 >> 24, s >> 24);
#endif
}

// Weights i..i+3 of an output, for every type but q4_0.
vec4 four_weights(uint o, uint i) {
  if (ONE_BY_ONE) {
    vec4 v = vec4(0.0);
    for (uint j = 0; j < 4; ++j) {
      if (i + j < p.inputs) v[j] = element(TYPE, p.weight_offset + o * p.row_bytes, i + j);
    }
    return v;
  }
  uint at = o * p.inputs + i;
  if (TYPE == kTypeF32) return uintBitsToFloat(words4[(p.weight_offset >> 4) + (at >> 2)]);
  if (TYPE == kTypeF16) {
#ifdef NARROW_STORAGE
    return vec4(halves4[(p.weight_offset >> 3) + (at >> 2)]);
#else
    uvec2 w = words2[(p.weight_offset >> 3) + (at >> 2)];
    return vec4(unpackHalf2x16(w.x), unpackHalf2x16(w.y));
#endif
  }
  if (TYPE == kTypeBf16) {
    uvec2 w = words2[(p.weight_offset >> 3) + (at >> 2)];
    return uintBitsToFloat(uvec4(w.x << 16, w.x & 0xFFFF0000u, w.y << 16, w.y & 0xFFFF0000u));
  }
  return scale_of(at / 32) * signed_bytes(words[(p.weight_offset >> 2) + (at >> 2)]);
}

void main() {
  uint lane = lane_in_group();
  precise float sums[kSums];
  for (uint s = 0; s < kSums; ++s) sums[s] = 0.0;

  bool is_q4 = TYPE == kTypeQ4_0 && !ONE_BY_ONE;
  if (is_q4) {
    // A word has weights 4j..4j+3 of its block in the low and 16+4j.. in the high halves.
    for (uint word = lane; word < p.inputs / 8; word += LANES) {
      uint i = (word / 4) * 32 + (word % 4) * 4;
      vec4 low[OUTPUTS];
      vec4 high[OUTPUTS];
      for (uint j = 0; j < OUTPUTS; ++j) {
        uint o = weight_row(output_at(j));
        uint w = words[(p.weight_offset >> 2) + o * (p.inputs / 8) + word];
        float scale = scale_of(o * (p.inputs / 32) + word / 4);
        low[j] = scale * nibbles(w);
        high[j] = scale * nibbles(w >> 4);
      }
      for (uint r = 0; r < ROWS; ++r) {
        uint row = x_row(r);
        vec4 a = four_of_x(row, i);
        vec4 b = four_of_x(row, i + 16);
        for (uint j = 0; j < OUTPUTS; ++j) {
          precise float sum = sums[j * ROWS + r];
          for (uint e = 0; e < 4; ++e) sum = sum + a[e] * low[j][e];
          for (uint e = 0; e < 4; ++e) sum = sum + b[e] * high[j][e];
          sums[j * ROWS + r] = sum;
        }
      }
    }
  } else {
    for (uint i = lane * 4; i < p.inputs; i += LANES * 4) {
      vec4 w[OUTPUTS];
      for (uint j = 0; j < OUTPUTS; ++j) w[j] = four_weights(weight_row(output_at(j)), i);
      for (uint r = 0; r < ROWS; ++r) {
        vec4 a = four_of_x(x_row(r), i);
        for (uint j = 0; j < OUTPUTS; ++j) {
          precise float sum = sums[j * ROWS + r];
          sum = sum + a.x * w[j].x;
          sum = sum + a.y * w[j].y;
          sum = sum + a.z * w[j].z;
          sum = sum + a.w * w[j].w;
          sums[j * ROWS + r] = sum;
        }
      }
    }
  }
  finish(sums);
}
