#version 450
// Combines attention's splits, one workgroup per row and query head. It rescales weights from each
// split's largest score to the overall one, and adds splits in order. With one split, the bits
// equal attention without splits.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = kAttentionWorkgroup) in;
layout(push_constant) uniform Push { CombineParams p; };
layout(std430, binding = 1) readonly buffer Parts { float parts[]; };
layout(std430, binding = 2) writeonly buffer Y { float y[]; };

#include "masks.glsl"

void main() {
  uint head = gl_WorkGroupID.x;
  uint row = gl_WorkGroupID.y;
  uint slots = call[p.prefix_at] + seen_behind(row);
  uint splits = (slots + kAttentionSplit - 1) / kAttentionSplit;
  uint first = (row * gl_NumWorkGroups.x + head) * p.splits;
  uint sums_at = 2 * p.rows * gl_NumWorkGroups.x * p.splits + first * p.head_dim;

  float largest = parts[2 * first];
  for (uint s = 1; s < splits; ++s) largest = max(largest, parts[2 * (first + s)]);
  for (uint d = gl_LocalInvocationID.x; d < p.head_dim; d += kAttentionWorkgroup) {
    float share = exact_exp(parts[2 * first] - largest);
    precise float weight = parts[2 * first + 1] * share;
    precise float sum = parts[sums_at + d] * share;
    for (uint s = 1; s < splits; ++s) {
      share = exact_exp(parts[2 * (first + s)] - largest);
      weight = weight + parts[2 * (first + s) + 1] * share;
      sum = sum + parts[sums_at + s * p.head_dim + d] * share;
    }
    precise float mean = sum / weight;
    y[p.y_offset + row * p.y_stride + head * p.head_dim + d] = mean;
  }
}
