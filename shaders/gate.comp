#version 450
// One invocation per element; y enumerates rows. y may be gate or up.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(constant_id = 0) const uint ACTIVATION = kActivationSilu;
layout(constant_id = 1) const bool ONE_GATE = false;  // per row

layout(local_size_x = kRowWorkgroup) in;
layout(push_constant) uniform Push { GateParams p; };
layout(std430, binding = 1) buffer Gate { float gate[]; };
layout(std430, binding = 2) buffer Up { float up[]; };
layout(std430, binding = 3) buffer Y { float y[]; };

const float kLimit = 7.0;  // of clamped factors

// g / (1 + e^x)
float sigmoid_share(float g, float x) {
  precise float share = g / (1.0 + exact_exp(x));
  return share;
}

void main() {
  uint i = gl_GlobalInvocationID.x;
  if (i >= p.cols) return;
  uint row = gl_WorkGroupID.y;
  float g = gate[p.gate_offset + row * p.gate_stride + (ONE_GATE ? 0 : i)];
  float u = up[p.up_offset + row * p.up_stride + i];
  precise float gated = g;
  if (ACTIVATION == kActivationSilu) {
    gated = sigmoid_share(g, -g);
  } else if (ACTIVATION == kActivationGelu) {
    // (1 + tanh t) / 2 = 1 / (1 + e^-2t), t = sqrt(2 / pi) (g + 0.044715 g^3)
    precise float x = -1.59576912 * g * (1.0 + 0.044715 * (g * g));
    gated = sigmoid_share(g, x);
  } else if (ACTIVATION == kActivationClamped) {
    float limited = g > kLimit ? kLimit : g;
    precise float x = -1.702 * limited;
    gated = sigmoid_share(limited, x);
    precise float factor = (u > kLimit ? kLimit : u < -kLimit ? -kLimit : u) + 1.0;
    u = factor;
  } else if (ACTIVATION == kActivationSigmoid) {
    gated = sigmoid_share(1.0, -g);
  }
  precise float result = gated * u;
  y[p.y_offset + row * p.y_stride + i] = result;
}
