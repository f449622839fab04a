#version 450
// Combines attention's splits, one workgroup per row and query head. It rescales weights from each
// split's largest score to the overall one, and adds splits in order. With one split, the bits
// equal attention without splits.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 0) const bool SINKS = false;

layout(local_size_x = kAttentionWorkgroup) in;
layout(push_constant) uniform Push { CombineParams p; };
layout(std430, binding = 1) readonly buffer Parts { float parts[]; };
layout(std430, binding = 2) writeonly buffer Y { float y[]; };
layout(std430, binding = 3) readonly buffer Sinks { float sinks[]; };

#include "masks.glsl"

void main() {
  uint head = gl_WorkGroupID.x;
  uint row = gl_WorkGroupID.y;
  uint slots = call[p.prefix_at] + seen_behind(row);
  uint splits = (slots + kAttentionSplit - 1) / kAttentionSplit;
  uint first = (row * gl_NumWorkGroups.x + head) * p.splits;
  uint sums_at = 2 * p.rows * gl_NumWorkGroups.x * p.splits + first * p.head_dim;

  // The first split that the row's window reaches.
  uint begin = hidden_slots(row) / kAttentionSplit;
  float largest = parts[2 * (first + begin)];
  for (uint s = begin + 1; s < splits; ++s) largest = max(largest, parts[2 * (first + s)]);
  float sink = SINKS ? sinks[p.sinks_offset + head] : largest;
  largest = max(largest, sink);
  for (uint d = gl_LocalInvocationID.x; d < p.head_dim; d += kAttentionWorkgroup) {
    float share = exact_exp(parts[2 * (first + begin)] - largest);
    precise float weight = parts[2 * (first + begin) + 1] * share;
    precise float sum = parts[sums_at + begin * p.head_dim + d] * share;
    for (uint s = begin + 1; s < splits; ++s) {
      share = exact_exp(parts[2 * (first + s)] - largest);
      weight = weight + parts[2 * (first + s) + 1] * share;
      sum = sum + parts[sums_at + s * p.head_dim + d] * share;
    }
    if (SINKS) weight = weight + exact_exp(sink - largest);
    precise float mean = sum / weight;
    y[p.y_offset + row * p.y_stride + head * p.head_dim + d] = mean;
  }
}
