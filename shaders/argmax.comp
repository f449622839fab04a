#version 450
// A workgroup finds the best of a row segment of 2048 logits. If a row has several segments, a
// second pass finds the best of their candidates. A lane reads every 128th element; then lanes are
// compared, eight neighbours first.
#extension GL_GOOGLE_include_directive : require
#ifdef SUBGROUPS
#extension GL_KHR_shader_subgroup_basic : require
#extension GL_KHR_shader_subgroup_shuffle : require
#endif
#include "common.glsl"
#include "lanes.glsl"

layout(local_size_x = kRowWorkgroup) in;
layout(constant_id = 0) const bool IS_FIRST = true;
layout(constant_id = 1) const bool IS_LAST = true;
layout(push_constant) uniform Push { ArgmaxParams p; };
layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(std430, binding = 1) readonly buffer Chosen { uvec2 chosen[]; };  // candidates
layout(std430, binding = 2) writeonly buffer Choices { uvec2 choices[]; };
layout(std430, binding = 2) writeonly buffer Tokens { uint tokens[]; };

#include "select.glsl"

const uint kEights = kRowWorkgroup / kNeighbours;

#ifndef SUBGROUPS
shared Candidate bests[kRowWorkgroup];
#endif
shared Candidate eights[kEights];

void main() {
  uint lane = lane_index();
  uint row = gl_WorkGroupID.y;
  uint from = p.x_offset + row * p.x_stride;
  uint first = IS_FIRST ? gl_WorkGroupID.x * kArgmaxSegment : 0;
  uint end = IS_FIRST ? min(first + kArgmaxSegment, p.count) : p.count;
  Candidate best = kNone;
  for (uint i = first + lane; i < end; i += kRowWorkgroup) {
    Candidate own =
        IS_FIRST ? candidate(x[from + i], i) : Candidate(chosen[from + i].x, chosen[from + i].y);
    if (better(own, best)) best = own;
  }
#ifdef SUBGROUPS
  best = best_of_neighbours(best);
  if (lane % kNeighbours == 0) eights[lane / kNeighbours] = best;
#else
  bests[lane] = best;
  barrier();
  if (lane < kEights) {
    best = bests[lane * kNeighbours];
    for (uint i = 1; i < kNeighbours; ++i) {
      if (better(bests[lane * kNeighbours + i], best)) best = bests[lane * kNeighbours + i];
    }
    eights[lane] = best;
  }
#endif
  barrier();
  if (lane != 0) return;
  for (uint i = 1; i < kEights; ++i) {
    if (better(eights[i], best)) best = eights[i];
  }
  if (IS_LAST) {
    tokens[p.y_offset + row] = best.token;
  } else {
    choices[p.y_offset + row * gl_NumWorkGroups.x + gl_WorkGroupID.x] =
        uvec2(best.order, best.token);
  }
}
