#version 450
// One workgroup per row. Lanes count the better logits of theirs: a logit's rank in the choice.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = kRowWorkgroup) in;
layout(push_constant) uniform Push { RouteParams p; };
layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(std430, binding = 2) writeonly buffer Experts { float experts[]; };
layout(std430, binding = 3) writeonly buffer Weights { float weights[]; };

#include "select.glsl"

shared uint orders[kExpertsMax];
shared float chosen[kExpertsUsedMax];

void main() {
  uint lane = gl_LocalInvocationID.x;
  uint row = gl_WorkGroupID.x;
  uint from = p.x_offset + row * p.x_stride;
  for (uint e = lane; e < p.count; e += kRowWorkgroup) orders[e] = ordered(x[from + e]);
  barrier();
  for (uint e = lane; e < p.count; e += kRowWorkgroup) {
    Candidate own = Candidate(orders[e], e);
    uint rank = 0;
    for (uint i = 0; i < p.count; ++i) rank += better(Candidate(orders[i], i), own) ? 1 : 0;
    if (rank >= p.used) continue;
    experts[p.experts_offset + row * p.experts_stride + rank] = float(e);
    chosen[rank] = x[from + e];
  }
  barrier();
  if (lane >= p.used) return;
  precise float sum = 0.0;
  for (uint u = 0; u < p.used; ++u) sum = sum + exact_exp(chosen[u] - chosen[0]);
  precise float weight = exact_exp(chosen[lane] - chosen[0]) / sum;
  weights[p.weights_offset + row * p.weights_stride + lane] = weight;
}
