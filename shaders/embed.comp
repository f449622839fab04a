#version 450
// One invocation per element, one row of y per token. Tokens outside the bound part of the table
// are handled by another dispatch.
#extension GL_GOOGLE_include_directive : require
#ifdef NARROW_STORAGE
#extension GL_EXT_shader_8bit_storage : require
#extension GL_EXT_shader_16bit_storage : require
#endif
#include "common.glsl"

layout(local_size_x = kRowWorkgroup) in;
layout(constant_id = 0) const uint TYPE = 0;
layout(push_constant) uniform Push { EmbedParams p; };
layout(std430, binding = 1) readonly buffer Table { uint table[]; };
layout(std430, binding = 2) writeonly buffer Y { float y[]; };

#define WEIGHT_WORDS table
#ifdef NARROW_STORAGE
layout(std430, binding = 1) readonly buffer Bytes { uint8_t bytes[]; };
layout(std430, binding = 1) readonly buffer Shorts { uint16_t shorts[]; };
layout(std430, binding = 1) readonly buffer Halves { float16_t halves[]; };
#define WEIGHT_BYTES bytes
#define WEIGHT_SHORTS shorts
#define WEIGHT_HALVES halves
#endif
#include "weights.glsl"

void main() {
  uint i = gl_GlobalInvocationID.x;
  uint row = gl_WorkGroupID.y;
  uint token = call[p.tokens_at + row] - p.first_token;
  if (i >= p.cols || token >= p.token_count) return;
  y[p.y_offset + row * p.y_stride + i] =
      element(TYPE, p.table_offset_bytes + token * p.row_bytes, i);
}
