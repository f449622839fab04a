#version 450
// One workgroup a row. A lane looks at every 128th number; lanes are compared in a tree.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = kRowWorkgroup) in;
layout(push_constant) uniform Push { ArgmaxParams p; };
layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(std430, binding = 2) writeonly buffer Y { uint y[]; };

#include "select.glsl"

shared Candidate bests[kRowWorkgroup];

void main() {
  uint lane = gl_LocalInvocationID.x;
  uint from = p.x_offset + gl_WorkGroupID.x * p.x_stride;
  Candidate best = Candidate(0.0, kNoToken);
  for (uint i = lane; i < p.cols; i += kRowWorkgroup) {
    Candidate own = Candidate(x[from + i], i);
    if (better(own, best)) best = own;
  }
  bests[lane] = best;
  for (uint half_count = kRowWorkgroup / 2; half_count > 0; half_count /= 2) {
    barrier();
    if (lane < half_count && better(bests[lane + half_count], bests[lane])) {
      bests[lane] = bests[lane + half_count];
    }
  }
  if (lane == 0) y[p.y_offset + gl_WorkGroupID.x] = bests[0].token;
}
