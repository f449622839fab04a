#version 450
// One workgroup per group of a row; y enumerates rows. Lane i adds the squares of elements
// i, i + 128, ...; then lanes are added (lanes.glsl).
#extension GL_GOOGLE_include_directive : require
#ifdef SUBGROUPS
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#include "common.glsl"
#include "lanes.glsl"

layout(local_size_x = kRowWorkgroup) in;
layout(push_constant) uniform Push { RmsNormParams p; };
layout(std430, binding = 1) buffer X { float x[]; };  // y may be x
layout(std430, binding = 2) readonly buffer Weight { float weight[]; };
layout(std430, binding = 3) buffer Y { float y[]; };

const uint kEights = kRowWorkgroup / kNeighbours;

#ifndef SUBGROUPS
shared float squares[kRowWorkgroup];
#endif
shared float eights[kEights];

float sum_of_lanes(float own) {
  uint lane = lane_index();
#ifdef SUBGROUPS
  float sum = sum_of_neighbours(own);
  if (lane % kNeighbours == 0) eights[lane / kNeighbours] = sum;
#else
  squares[lane] = own;
  barrier();
  if (lane < kEights) eights[lane] = TREE_OF_EIGHT(squares, lane * kNeighbours, 1);
#endif
  barrier();
  precise float total = eights[0];
  for (uint i = 1; i < kEights; ++i) total = total + eights[i];
  return total;
}

void main() {
  uint lane = lane_index();
  uint from = p.x_offset + gl_WorkGroupID.y * p.x_stride + gl_WorkGroupID.x * p.cols;
  uint to = p.y_offset + gl_WorkGroupID.y * p.y_stride + gl_WorkGroupID.x * p.cols;
  precise float sum = 0.0;
  for (uint i = lane; i < p.cols; i += kRowWorkgroup) sum = sum + x[from + i] * x[from + i];
  precise float scale = 1.0 / sqrt(sum_of_lanes(sum) / float(p.cols) + p.epsilon);
  for (uint i = lane; i < p.cols; i += kRowWorkgroup) {
    precise float normed = x[from + i] * scale * weight[p.weight_offset + i];
    if (p.accumulates != 0) normed = y[to + i] + normed;
    y[to + i] = normed;
  }
}
