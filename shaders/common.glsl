// Shared by all shaders. A row's result must not depend on other rows or on the device, so sums are
// `precise`: the compiler may neither reorder nor fuse them.
#extension GL_GOOGLE_include_directive : require
#include "params.h"

layout(std430, binding = 0) readonly buffer CallBuffer { uint call[]; };

// The lowest finite value, used instead of -infinity: without SignedZeroInfNanPreserve, which few
// devices offer, a driver may assume that there is no infinity.
const float kLowest = -3.40282346638528859812e38;

bool is_nan(float x) { return (floatBitsToUint(x) & 0x7FFFFFFFu) > 0x7F800000u; }

// e^x within 1.5 units in the last place; 0 below -87, e^88 above 88, NaN for NaN. The built-in exp
// may be off by several units, depending on the device.
// Source    Cephes' expf
float exact_exp(float x) {
  precise float clamped = clamp(x, -87.0, 88.0);
  precise float n = floor(clamped * 1.44269504088896341 + 0.5);
  precise float r = clamped - n * 0.693359375;
  r = r + n * 2.12194440e-4;
  precise float p = 1.9875691500e-4;
  p = p * r + 1.3981999507e-3;
  p = p * r + 8.3334519073e-3;
  p = p * r + 4.1665795894e-2;
  p = p * r + 1.6666665459e-1;
  p = p * r + 5.0000001201e-1;
  p = p * (r * r) + r;
  p = p + 1.0;
  precise float y = p * uintBitsToFloat(uint(int(n) + 127) << 23);
  if (x < -87.0) y = 0.0;
  return is_nan(x) ? x : y;
}
