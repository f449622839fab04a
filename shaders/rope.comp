#version 450
// One invocation per rotated pair; y enumerates rows.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = kRowWorkgroup) in;
layout(push_constant) uniform Push { RopeParams p; };
layout(std430, binding = 1) buffer X { float x[]; };
layout(std430, binding = 2) readonly buffer CosSin { float cos_sin[]; };

void main() {
  uint pair = gl_GlobalInvocationID.x;
  if (pair >= p.pair_count) return;
  uint row = gl_WorkGroupID.y;
  uint half_dim = p.rotated / 2;
  uint i = pair % half_dim;
  uint head = p.x_offset + row * p.x_stride + pair / half_dim * p.head_dim;
  uint at_a = head + (p.pairs != 0 ? 2 * i : i);
  uint at_b = at_a + (p.pairs != 0 ? 1 : half_dim);
  uint angles = p.table_offset + call[p.positions_at + row] * p.table_stride;
  float c = cos_sin[angles + i];
  float s = cos_sin[angles + half_dim + i];
  float a = x[at_a];
  float b = x[at_b];
  precise float turned_a = a * c - b * s;
  precise float turned_b = b * c + a * s;
  x[at_a] = turned_a;
  x[at_b] = turned_b;
}
