#version 450
// One workgroup a row and a few query heads of a key-value head.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = kAttentionWorkgroup) in;
layout(push_constant) uniform Push { AttentionParams p; };
layout(std430, binding = 1) readonly buffer Q { float q[]; };
layout(std430, binding = 2) readonly buffer K { float k[]; };
layout(std430, binding = 3) readonly buffer V { float v[]; };
layout(std430, binding = 4) writeonly buffer Y { float y[]; };

#include "attend.glsl"

void main() {
  uint row = gl_WorkGroupID.y;
  uint prefix = call[p.prefix_at];
  uint total = prefix;
  if (p.has_masks != 0) {
    uint mask = p.prefix_at + 1 + row * kMaskWords;
    uint below = 0;  // visible rows in the words before
    for (uint word = 0; word < kMaskWords; ++word) {
      uint bits = call[mask + word];
      for (uint b = gl_LocalInvocationID.x; b < 32; b += kAttentionWorkgroup) {
        if ((bits >> b & 1u) != 0) {
          visible[below + bitCount(bits & ((1u << b) - 1u))] = word * 32 + b;
        }
      }
      below += bitCount(bits);
    }
    total += below;
    barrier();
  }
  attend(row, gl_WorkGroupID.x * HEADS, 0, prefix, total);
}
