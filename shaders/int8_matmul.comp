#version 450
// Matmuls of q8_0 and q4_0 with activations rounded to int8 (quantize), divided as in product.glsl.
// Lanes take 16 weights (q4_0: a block of 32) at a time, with dot products of four int8. These sums
// are exact; scaled, they are added in float32.
#extension GL_GOOGLE_include_directive : require
#ifdef SUBGROUPS
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#extension GL_EXT_spirv_intrinsics : require
#ifdef NARROW_STORAGE
#extension GL_EXT_shader_16bit_storage : require
#endif
#include "common.glsl"
#include "lanes.glsl"
#include "product.glsl"

layout(std430, binding = 1) readonly buffer X { uint x_words[]; };
layout(std430, binding = 1) readonly buffer XVectors { uvec4 x_vectors[]; };
layout(std430, binding = 2) readonly buffer Words4 { uvec4 words4[]; };

// OpSDot, which GLSL has no name for yet: DotProductInput4x8BitPacked, DotProduct.
// clang-format off
spirv_instruction(extensions = ["SPV_KHR_integer_dot_product"], capabilities = [6018, 6019],
                  id = 4450)
int packed_dot(uint a, uint b, spirv_literal int format);
// clang-format on

// The dot product of 16 pairs of signed bytes.
int dot_of(uvec4 a, uvec4 b) {
  return packed_dot(a.x, b.x, 0) + packed_dot(a.y, b.y, 0) + packed_dot(a.z, b.z, 0) +
         packed_dot(a.w, b.w, 0);
}

// (high nibble - 8) * 16 of each byte: a signed byte.
uvec4 sixteenfold(uvec4 w) { return (w & 0xF0F0F0F0u) ^ 0x80808080u; }

void main() {
  const bool is_q4 = TYPE == kTypeQ4_0;
  const uint step_size = is_q4 ? 32 : 16;
  uint steps = p.inputs / step_size;
  precise float sums[kSums];
  for (uint s = 0; s < kSums; ++s) sums[s] = 0.0;

  for (uint i = lane_in_group(); i < steps; i += LANES) {
    uint block = is_q4 ? i : i / 2;
    uvec4 w[OUTPUTS];
    float scale[OUTPUTS];
    for (uint j = 0; j < OUTPUTS; ++j) {
      uint o = weight_row(output_at(j));
      w[j] = words4[(p.weight_offset >> 4) + o * steps + i];
      scale[j] = scale_of(o * (p.inputs / 32) + block);
    }
    for (uint r = 0; r < ROWS; ++r) {
      uint at = p.x_offset + x_row(r) * p.x_stride;
      float x_scale = uintBitsToFloat(x_words[at + p.inputs / 4 + block * 32 / kQuantizeGroup]);
      uvec4 a = x_vectors[(at >> 2) + (is_q4 ? 2 * i : i)];
      uvec4 b = is_q4 ? x_vectors[(at >> 2) + 2 * i + 1] : uvec4(0);
      for (uint j = 0; j < OUTPUTS; ++j) {
        precise float product;
        if (is_q4) {
          // Weights 0..15 are in the low, 16..31 in the high halves of the bytes.
          int dots = dot_of(sixteenfold(w[j] << 4), a) + dot_of(sixteenfold(w[j]), b);
          product = float(dots) * (scale[j] * 0.0625 * x_scale);
        } else {
          product = float(dot_of(w[j], a)) * (scale[j] * x_scale);
        }
        precise float sum = sums[j * ROWS + r] + product;
        sums[j * ROWS + r] = sum;
      }
    }
  }
  finish(sums);
}
