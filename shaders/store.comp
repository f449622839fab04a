#version 450
// One invocation per element, or per block of int8; y enumerates rows. With NARROW_STORAGE the
// cache may be float16.
#extension GL_GOOGLE_include_directive : require
#ifdef NARROW_STORAGE
#extension GL_EXT_shader_16bit_storage : require
#endif
#include "common.glsl"
#include "int8.glsl"

layout(local_size_x = kRowWorkgroup) in;
layout(constant_id = 0) const uint TYPE = kTypeF32;
layout(push_constant) uniform Push { StoreParams p; };
layout(std430, binding = 1) readonly buffer X { float x[]; };
layout(std430, binding = 2) writeonly buffer Cache { float cache[]; };
layout(std430, binding = 2) writeonly buffer Words { uint words[]; };

#ifdef NARROW_STORAGE
layout(std430, binding = 2) writeonly buffer HalfCache { uint16_t half_cache[]; };

// x as float16: to nearest, ties to even; finite values beyond its range become its largest value.
// Built-in conversions may round either way.
uint half_bits(float x) {
  uint bits = floatBitsToUint(x);
  uint sign = bits >> 16 & 0x8000u;
  bits &= 0x7FFFFFFFu;
  if (bits > 0x7F800000u) return sign | 0x7E00u;   // NaN
  if (bits == 0x7F800000u) return sign | 0x7C00u;  // infinity
  if (bits >= 0x477FE000u) return sign | 0x7BFFu;  // 65504
  if (bits >= 0x38800000u) {                       // 2^-14, the smallest normal number
    bits += 0xFFFu + (bits >> 13 & 1u);
    return sign | bits - 0x38000000u >> 13;
  }
  uint exponent = bits >> 23;
  if (exponent < 102) return sign;  // less than half of the smallest value, 2^-24
  uint shift = 126 - exponent;
  uint mantissa = bits & 0x7FFFFFu | 0x800000u;
  uint whole = mantissa >> shift;
  uint rest = mantissa & (1u << shift) - 1;
  uint tie = 1u << shift - 1;
  if (rest > tie || (rest == tie && (whole & 1u) != 0)) ++whole;
  return sign | whole;
}
#endif

const float kInt8Smallest = 7.888609052210118e-31;  // 2^-100
const uint kInt8ScaleMaxBits = 0x7C010203u;

// |a| / b to nearest, ties to even, by long division: built-in division may be off by a few units
// in the last place. Requires  a and b finite, b > 0; they and the quotient are normal
float quotient(float a, float b) {
  uint a_bits = floatBitsToUint(a) & 0x7FFFFFFFu;
  uint b_bits = floatBitsToUint(b);
  int exponent = int(a_bits >> 23) - int(b_bits >> 23);
  uint rest = a_bits & 0x7FFFFFu | 0x800000u;
  uint divisor = b_bits & 0x7FFFFFu | 0x800000u;
  if (rest < divisor) {
    rest <<= 1;
    --exponent;
  }
  uint digits = 0;  // 24 bits, and one for rounding
  for (uint i = 0; i < 25; ++i) {
    bool fits = rest >= divisor;
    digits = digits << 1 | uint(fits);
    if (fits) rest -= divisor;
    rest <<= 1;
  }
  uint whole = digits >> 1;
  if ((digits & 1u) != 0 && (rest != 0 || (whole & 1u) != 0)) ++whole;
  return uintBitsToFloat((uint(exponent + 127) << 23) + (whole - 0x800000u));
}

// Stores elements `first`.. of the row that starts at `from`, at most a block.
void store_int8_block(uint from, uint first, uint to) {
  uint count = min(p.cols - first, kInt8Block);
  uint largest = 0;  // non-negative floats order like their bits
  for (uint i = 0; i < count; ++i) {
    largest = max(largest, floatBitsToUint(x[from + first + i]) & 0x7FFFFFFFu);
  }
  bool is_finite = largest < 0x7F800000u;
  bool is_zero = !is_finite || largest < floatBitsToUint(kInt8Smallest);
  uint scale_bits = 0;
  if (!is_zero) {
    scale_bits = floatBitsToUint(quotient(uintBitsToFloat(largest), 127.0));
    scale_bits = min(scale_bits, kInt8ScaleMaxBits);
  }
  float scale = uintBitsToFloat(scale_bits);
  uint at = int8_block(to, first);
  words[at] = is_finite ? scale_bits : 0x7FC00000u;
  for (uint word = 0; word < kInt8Block / 4; ++word) {
    uint bits = 0;
    for (uint j = 0; j < 4; ++j) {
      uint i = word * 4 + j;
      if (is_zero || i >= count) continue;
      float number = x[from + first + i];
      if (abs(number) < 0.25 * scale) continue;  // rounds to 0
      int level = int(roundEven(quotient(number, scale)));
      if (floatBitsToUint(number) >> 31 != 0) level = -level;
      bits |= uint(level & 0xFF) << j * 8;
    }
    words[at + 1 + word] = bits;
  }
}

void main() {
  uint i = gl_GlobalInvocationID.x;
  uint row = gl_WorkGroupID.y;
  if (TYPE == kTypeI8) {
    if (i * kInt8Block >= p.cols) return;
    store_int8_block(p.x_offset + row * p.x_stride, i * kInt8Block,
                     p.cache_offset + (call[p.first_at] + row) * p.cache_stride);
    return;
  }
  if (i >= p.cols) return;
  uint to = p.cache_offset + (call[p.first_at] + row) * p.cache_stride + i;
  float number = x[p.x_offset + row * p.x_stride + i];
#ifdef NARROW_STORAGE
  if (TYPE == kTypeF16) {
    half_cache[to] = uint16_t(half_bits(number));
    return;
  }
#endif
  cache[to] = number;
}
