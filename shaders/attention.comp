#version 450
// One workgroup a few rows and a few query heads of a key-value head.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = kAttentionWorkgroup) in;
layout(push_constant) uniform Push { AttentionParams p; };
layout(std430, binding = 1) readonly buffer Q { float q[]; };
layout(std430, binding = 2) readonly buffer K { float k[]; };
layout(std430, binding = 3) readonly buffer V { float v[]; };
layout(std430, binding = 4) writeonly buffer Y { float y[]; };

uint mask_word(uint row, uint word) { return call[p.prefix_at + 1 + row * kMaskWords + word]; }

// The i-th bit that is set in a row's mask.
uint visible(uint row, uint i) {
  uint word = 0;
  uint bits = mask_word(row, 0);
  while (i >= bitCount(bits)) {
    i -= bitCount(bits);
    bits = mask_word(row, ++word);
  }
  for (; i > 0; --i) bits &= bits - 1;
  return word * 32 + findLSB(bits);
}

#include "attend.glsl"

void main() {
  uint first_row = gl_WorkGroupID.y * ROWS;
  uint row_count = min(ROWS, p.rows - first_row);
  uint behind[ROWS];
  for (uint r = 0; r < ROWS; ++r) {
    behind[r] = 0;
    if (p.has_masks == 0 || r >= row_count) continue;
    for (uint word = 0; word < kMaskWords; ++word) {
      behind[r] += bitCount(mask_word(first_row + r, word));
    }
  }
  attend(first_row, row_count, gl_WorkGroupID.x * HEADS, 0, call[p.prefix_at], behind);
}
