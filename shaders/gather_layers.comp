#version 450
// One invocation per element of a layer's keys or values at a slot; y enumerates slots.
#extension GL_GOOGLE_include_directive : require
#ifdef NARROW_STORAGE
#extension GL_EXT_shader_16bit_storage : require
#endif
#include "common.glsl"
#include "int8.glsl"

layout(local_size_x = kRowWorkgroup) in;
layout(constant_id = 0) const uint TYPE = kTypeF32;
layout(push_constant) uniform Push { GatherLayersParams p; };
layout(std430, binding = 1) readonly buffer K { float k[]; };
layout(std430, binding = 2) readonly buffer V { float v[]; };
layout(std430, binding = 1) readonly buffer KWords { uint k_words[]; };
layout(std430, binding = 2) readonly buffer VWords { uint v_words[]; };
layout(std430, binding = 3) writeonly buffer Y { float y[]; };

#ifdef NARROW_STORAGE
layout(std430, binding = 1) readonly buffer HalfK { float16_t half_k[]; };
layout(std430, binding = 2) readonly buffer HalfV { float16_t half_v[]; };
#endif

float k_at(uint row, uint i) {
#ifdef NARROW_STORAGE
  if (TYPE == kTypeF16) return float(half_k[row + i]);
#endif
  return TYPE == kTypeI8 ? INT8_AT(k_words, row, i) : k[row + i];
}
float v_at(uint row, uint i) {
#ifdef NARROW_STORAGE
  if (TYPE == kTypeF16) return float(half_v[row + i]);
#endif
  return TYPE == kTypeI8 ? INT8_AT(v_words, row, i) : v[row + i];
}

void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i >= p.kv_cols) return;
  uint slot = call[p.slots_at + gl_WorkGroupID.y];
  uint head = i / p.head_dim;
  uint d = i % p.head_dim;
  uint half_dim = p.head_dim / 2;
  uint from = p.pairs != 0 ? d % half_dim * 2 + d / half_dim : d;
  uint to =
      p.y_offset + (gl_WorkGroupID.y * p.layers + p.layer) * p.y_stride + 2 * head * p.head_dim + d;
  y[to] = k_at(p.k_offset + slot * p.k_stride, head * p.head_dim + from);
  y[to + p.head_dim] = v_at(p.v_offset + slot * p.v_stride, i);
}
