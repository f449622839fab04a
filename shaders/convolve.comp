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
#include "inputs.glsl"

void main() {
  uint c = gl_GlobalInvocationID.x;
  if (c >= p.cols) return;
  uint row = gl_WorkGroupID.y;
  bool is_settled = row < settled_rows();
  uint at = is_settled ? kNoRow : kept_row(row);
  uint steps = is_settled ? settled_rows() - row : 1;
  float inputs[kConvolutionTapsMax];  // newest first
  for (uint j = 0; j < p.taps; ++j) {
    if (at != kNoRow) {
      inputs[j] = drafted_input(at, c);
      at = parent(at);
    } else {
      inputs[j] = input_before_drafts(steps, c);
      ++steps;
    }
  }
  precise float sum = 0.0;
  for (uint j = 0; j < p.taps; ++j) {
    sum = sum + weight[p.weight_offset + c * p.taps + j] * inputs[p.taps - 1 - j];
  }
  precise float activated = p.is_silu != 0 ? sum / (1.0 + exact_exp(-sum)) : sum;
  y[p.y_offset + row * p.y_stride + c] = activated;
}
