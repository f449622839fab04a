#version 450
// Divides each head of q and k by its length. Eight lanes per head; y enumerates rows.
#extension GL_GOOGLE_include_directive : require
#ifdef SUBGROUPS
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#include "common.glsl"
#include "lanes.glsl"

layout(local_size_x = kDeltaWorkgroup) in;
layout(constant_id = 0) const uint DIM = 128;
layout(push_constant) uniform Push { DeltaDivideParams p; };
layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(std430, binding = 2) writeonly buffer Y { float y[]; };

#ifndef SUBGROUPS
shared float squares[kDeltaWorkgroup];
#endif

void main() {
  uint lane = lane_index();
  uint head = (gl_WorkGroupID.x * kDeltaWorkgroup + lane) / kNeighbours;
  uint part = lane % kNeighbours;
  uint from = p.x_offset + gl_WorkGroupID.y * p.x_stride + head * DIM;
  uint to = gl_WorkGroupID.y * p.y_stride + head * DIM;
  uint dim = head < p.heads ? DIM : 0;
  precise float sum = 0.0;
  for (uint i = part; i < dim; i += kNeighbours) sum = sum + x[from + i] * x[from + i];
#ifdef SUBGROUPS
  sum = sum_of_neighbours(sum);
#else
  squares[lane] = sum;
  barrier();
  sum = TREE_OF_EIGHT(squares, lane - part, 1);
#endif
  precise float scale = 1.0 / sqrt(sum + p.epsilon);
  for (uint i = part; i < dim; i += kNeighbours) y[to + i] = x[from + i] * scale;
}
