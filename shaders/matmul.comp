#version 450
// A workgroup is groups of LANES; a group makes OUTPUTS outputs of ROWS rows. Its lanes share the
// inputs of an output, four (q4_0: eight) at a time, so that they read the weight in whole cache
// lines, and a weight once for all rows of the tile. Lanes are added in order, one invocation a
// result. The order of a sum depends on the number of inputs and on LANES, which is fixed for a
// device: a row's bits are the same in every tile.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x_id = 4) in;
layout(constant_id = 0) const uint TYPE = 0;
layout(constant_id = 1) const uint ROWS = 1;
// Whether the weight is decoded one by one (K types, rows of odd lengths) or four at a time: q8_0
// and q4_0 with their scales apart, rows of other types at whole vectors.
layout(constant_id = 2) const bool ONE_BY_ONE = false;
// Whether the rows of x begin at whole vectors.
layout(constant_id = 3) const bool X_VECTORS = false;
layout(constant_id = 4) const uint WORKGROUP = 64;
layout(constant_id = 5) const uint LANES = 32;
layout(constant_id = 6) const uint OUTPUTS = 2;
layout(push_constant) uniform Push { MatmulParams p; };
// The same memory as numbers and as vectors.
layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(std430, binding = 1) readonly buffer XVectors { vec4 x_vectors[]; };
layout(std430, binding = 2) readonly buffer Words { uint words[]; };
layout(std430, binding = 2) readonly buffer Words2 { uvec2 words2[]; };
layout(std430, binding = 2) readonly buffer Words4 { uvec4 words4[]; };
layout(std430, binding = 3) readonly buffer Scales { uint scales[]; };
layout(std430, binding = 4) readonly buffer Bias { float bias[]; };
layout(std430, binding = 5) buffer Y { float y[]; };

#define WEIGHT_WORDS words
#include "weights.glsl"

const uint kGroups = WORKGROUP / LANES;
const uint kResults = kGroups * OUTPUTS * ROWS;

shared float partial[LANES * kResults];

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

float scale_of(uint block) {
  uint at = p.scale_offset + block;
  vec2 both = unpackHalf2x16(scales[at >> 1]);
  return (at & 1) == 0 ? both.x : both.y;
}

// Weights i..i+3 of an output, of every type but q4_0.
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
    uvec2 w = words2[(p.weight_offset >> 3) + (at >> 2)];
    return vec4(unpackHalf2x16(w.x), unpackHalf2x16(w.y));
  }
  if (TYPE == kTypeBf16) {
    uvec2 w = words2[(p.weight_offset >> 3) + (at >> 2)];
    return uintBitsToFloat(
        uvec4(w.x << 16, w.x & 0xFFFF0000u, w.y << 16, w.y & 0xFFFF0000u));
  }
  int w = int(words[(p.weight_offset >> 2) + (at >> 2)]);
  return scale_of(at / 32) * vec4(w << 24 >> 24, w << 16 >> 24, w << 8 >> 24, w >> 24);
}

void main() {
  uint lane = gl_LocalInvocationID.x % LANES;
  uint group = gl_LocalInvocationID.x / LANES;
  uint first_output = (gl_WorkGroupID.x * kGroups + group) * OUTPUTS;
  uint first_row = gl_WorkGroupID.y * ROWS;

  precise float sums[OUTPUTS * ROWS];
  for (uint s = 0; s < OUTPUTS * ROWS; ++s) sums[s] = 0.0;

  bool is_q4 = TYPE == kTypeQ4_0 && !ONE_BY_ONE;
  if (is_q4) {
    // A word has numbers 4j..4j+3 of its block in the low and 16+4j.. in the high halves.
    for (uint word = lane; word < p.inputs / 8; word += LANES) {
      uint i = (word / 4) * 32 + (word % 4) * 4;
      vec4 low[OUTPUTS];
      vec4 high[OUTPUTS];
      for (uint j = 0; j < OUTPUTS; ++j) {
        uint o = min(first_output + j, p.outputs - 1);
        uint w = words[(p.weight_offset >> 2) + o * (p.inputs / 8) + word];
        float scale = scale_of(o * (p.inputs / 32) + word / 4);
        ivec4 shifts = ivec4(0, 8, 16, 24);
        low[j] = scale * vec4(ivec4(uvec4(w) >> shifts & 15u) - 8);
        high[j] = scale * vec4(ivec4(uvec4(w) >> (shifts + 4) & 15u) - 8);
      }
      for (uint r = 0; r < ROWS; ++r) {
        uint row = min(first_row + r, p.rows - 1);
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
      for (uint j = 0; j < OUTPUTS; ++j) {
        w[j] = four_weights(min(first_output + j, p.outputs - 1), i);
      }
      for (uint r = 0; r < ROWS; ++r) {
        vec4 a = four_of_x(min(first_row + r, p.rows - 1), i);
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
  for (uint s = 0; s < OUTPUTS * ROWS; ++s) {
    partial[lane * kResults + group * OUTPUTS * ROWS + s] = sums[s];
  }
  barrier();

  for (uint s = gl_LocalInvocationID.x; s < kResults; s += WORKGROUP) {
    uint output_index = gl_WorkGroupID.x * kGroups * OUTPUTS + s / ROWS;
    uint row = first_row + s % ROWS;
    if (output_index >= p.outputs || row >= p.rows) continue;
    uint at = p.y_offset + row * p.y_stride + output_index;
    precise float total = 0.0;
    for (uint l = 0; l < LANES; ++l) total = total + partial[l * kResults + s];
    if (p.accumulates != 0) total = total + y[at];
    if (p.has_bias != 0) total = total + bias[p.bias_offset + output_index];
    y[at] = total;
  }
}
