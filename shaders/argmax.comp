#version 450
// A workgroup finds the best of a stretch of 2048 logits of a row; where a row has more than one
// stretch, a workgroup finds the best of the stretches' choices in a second pass. A lane looks at
// every 128th number; lanes are compared in a tree.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = kRowWorkgroup) in;
layout(constant_id = 0) const bool IS_FIRST = true;
layout(constant_id = 1) const bool IS_LAST = true;
layout(push_constant) uniform Push { ArgmaxParams p; };
layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(std430, binding = 1) readonly buffer Chosen { uvec2 chosen[]; };  // bits of a number, token
layout(std430, binding = 2) writeonly buffer Choices { uvec2 choices[]; };
layout(std430, binding = 2) writeonly buffer Tokens { uint tokens[]; };

#include "select.glsl"

shared Candidate bests[kRowWorkgroup];

void main() {
  uint lane = gl_LocalInvocationID.x;
  uint row = gl_WorkGroupID.y;
  uint from = p.x_offset + row * p.x_stride;
  uint first = IS_FIRST ? gl_WorkGroupID.x * kArgmaxStretch : 0;
  uint end = IS_FIRST ? min(first + kArgmaxStretch, p.count) : p.count;
  Candidate best = Candidate(0.0, kNoToken);
  for (uint i = first + lane; i < end; i += kRowWorkgroup) {
    Candidate own;
    if (IS_FIRST) {
      own = Candidate(x[from + i], i);
    } else {
      own = Candidate(uintBitsToFloat(chosen[from + i].x), chosen[from + i].y);
    }
    if (better(own, best)) best = own;
  }
  bests[lane] = best;
  for (uint half_count = kRowWorkgroup / 2; half_count > 0; half_count /= 2) {
    barrier();
    if (lane < half_count && better(bests[lane + half_count], bests[lane])) {
      bests[lane] = bests[lane + half_count];
    }
  }
  if (lane != 0) return;
  if (IS_LAST) {
    tokens[p.y_offset + row] = bests[0].token;
  } else {
    choices[p.y_offset + row * gl_NumWorkGroups.x + gl_WorkGroupID.x] =
        uvec2(floatBitsToUint(bests[0].value), bests[0].token);
  }
}
