#version 450
// One invocation per element; y enumerates rows. Inputs are found backwards and added forwards.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = kRowWorkgroup) in;
layout(push_constant) uniform Push { ConvolutionParams p; };
layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(std430, binding = 2) readonly buffer Weight { float weight[]; };
layout(std430, binding = 3) readonly buffer State { float state[]; };
layout(std430, binding = 4) readonly buffer Kept { float kept[]; };
layout(std430, binding = 5) writeonly buffer Y { float y[]; };

// The input of column c `steps` positions before the call's rows.
float input_before(uint steps, uint c) {
  uint count = call[p.rows_at + kPendingCountWord];
  if (steps <= count) {
    uint row = call[p.rows_at + kParentWords + p.rows + count - steps];
    return kept[p.kept_offset + row * p.kept_stride + c];
  }
  return state[p.state_offset + (p.taps - 1 + count - steps) * p.state_stride + c];
}

void main() {
  uint c = gl_GlobalInvocationID.x;
  if (c >= p.cols) return;
  uint at = gl_WorkGroupID.y;
  uint steps = 0;
  float inputs[kConvolutionTapsMax];  // newest first
  for (uint j = 0; j < p.taps; ++j) {
    if (at != kNoRow) {
      inputs[j] = x[p.x_offset + at * p.x_stride + c];
      at = call[p.rows_at + kParentWords + at];
    } else {
      inputs[j] = input_before(++steps, c);
    }
  }
  precise float sum = 0.0;
  for (uint j = 0; j < p.taps; ++j) {
    sum = sum + weight[p.weight_offset + c * p.taps + j] * inputs[p.taps - 1 - j];
  }
  precise float activated = p.is_silu != 0 ? sum / (1.0 + exact_exp(-sum)) : sum;
  y[p.y_offset + gl_WorkGroupID.y * p.y_stride + c] = activated;
}
