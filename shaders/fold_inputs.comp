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

void main() {
  uint c = gl_GlobalInvocationID.x;
  if (c >= p.cols) return;
  uint settled = call[p.rows_at + kSettledWord];
  uint pending_count = call[p.rows_at + kPendingCountWord];
  uint added = settled + pending_count;
  for (uint i = 0; added > 0 && i < p.state_rows; ++i) {
    uint from = i + added;  // reads are ahead of writes
    float number;
    if (from < p.state_rows) {
      number = state[p.state_offset + from * p.state_stride + c];
    } else if (from - p.state_rows < pending_count) {
      uint row = call[p.rows_at + kParentWords + p.rows + from - p.state_rows];
      number = kept[p.kept_offset + row * p.kept_stride + c];
    } else {
      number = x[p.x_offset + (from - p.state_rows - pending_count) * p.x_stride + c];
    }
    state[p.state_offset + i * p.state_stride + c] = number;
  }
  for (uint row = settled; row < p.rows; ++row) {
    kept[p.kept_offset + row * p.kept_stride + c] = x[p.x_offset + row * p.x_stride + c];
  }
}
