#version 450
// One invocation per column: moves a convolution's state past the pending and settled rows, then
// keeps the inputs of the others. After convolve.comp, whose rows all read the old state.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = kRowWorkgroup) in;
layout(push_constant) uniform Push { FoldInputsParams p; };
layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(std430, binding = 2) buffer State { float state[]; };
layout(std430, binding = 3) buffer Kept { float kept[]; };
#include "inputs.glsl"

void main() {
  uint c = gl_GlobalInvocationID.x;
  if (c >= p.cols) return;
  if (pending_rows() + settled_rows() > 0) {
    for (uint i = 0; i < p.taps - 1; ++i) {
      // Reads are ahead of writes.
      state[p.state_offset + i * p.state_stride + c] = input_before_drafts(p.taps - 1 - i, c);
    }
  }
  for (uint row = settled_rows(); row < p.rows; ++row) {
    kept[p.kept_offset + kept_row(row) * p.kept_stride + c] = input_of(row, c);
  }
}
