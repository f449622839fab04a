#version 450
// One workgroup a row. Lane i adds the squares of elements i, i + 128, ...; lanes are added in a
// tree.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = kRowWorkgroup) in;
layout(push_constant) uniform Push { RmsNormParams p; };
layout(std430, binding = 1) buffer X { float x[]; };  // y may be x
layout(std430, binding = 2) readonly buffer Weight { float weight[]; };
layout(std430, binding = 3) buffer Y { float y[]; };

shared float squares[kRowWorkgroup];

void main() {
  uint lane = gl_LocalInvocationID.x;
  uint from = p.x_offset + gl_WorkGroupID.x * p.x_stride;
  uint to = p.y_offset + gl_WorkGroupID.x * p.y_stride;
  precise float sum = 0.0;
  for (uint i = lane; i < p.cols; i += kRowWorkgroup) sum = sum + x[from + i] * x[from + i];
  squares[lane] = sum;
  for (uint half_count = kRowWorkgroup / 2; half_count > 0; half_count /= 2) {
    barrier();
    if (lane < half_count) {
      precise float both = squares[lane] + squares[lane + half_count];
      squares[lane] = both;
    }
  }
  barrier();
  precise float scale = 1.0 / sqrt(squares[0] / float(p.cols) + p.epsilon);
  for (uint i = lane; i < p.cols; i += kRowWorkgroup) {
    precise float normed = x[from + i] * scale * weight[p.weight_offset + i];
    y[to + i] = normed;
  }
}
