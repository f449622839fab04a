#version 450
// One invocation per value head; y enumerates rows.
#extension GL_GOOGLE_include_directive : require
#include "common.glsl"

layout(local_size_x = kRowWorkgroup) in;
layout(push_constant) uniform Push { DeltaGatesParams p; };
layout(std430, binding = 1) readonly buffer Alpha { float alpha[]; };
layout(std430, binding = 2) readonly buffer Beta { float beta[]; };
layout(std430, binding = 3) readonly buffer Decay { float decay[]; };
layout(std430, binding = 4) readonly buffer TimeBias { float time_bias[]; };
layout(std430, binding = 5) writeonly buffer Y { float y[]; };

// log(1 + e^x) with a relative error of a few units in the last place, since errors of a decay
// multiply over thousands of positions. The built-in log has an absolute error near 1.
float softplus(float x) {
  precise float power = exact_exp(-abs(x));
  precise float s = power / (2.0 + power);  // log(1 + power) = 2 artanh(s), s <= 1/3
  precise float z = s * s;
  precise float series = 1.0 / 17.0;
  for (int n = 15; n >= 1; n -= 2) series = series * z + 1.0 / float(n);
  precise float sum = max(x, 0.0) + 2.0 * s * series;
  return sum;
}

void main() {
  uint head = gl_GlobalInvocationID.x;
  if (head >= p.value_heads) return;
  uint row = gl_WorkGroupID.y;
  precise float time =
      alpha[p.alpha_offset + row * p.alpha_stride + head] + time_bias[p.time_bias_offset + head];
  precise float exponent = decay[p.decay_offset + head] * softplus(time);
  precise float step = 1.0 / (1.0 + exact_exp(-beta[p.beta_offset + row * p.beta_stride + head]));
  uint to = p.y_offset + row * p.y_stride + head;
  y[to] = exact_exp(exponent);
  y[to + p.value_heads] = step;
}
