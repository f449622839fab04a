#include <algorithm>
#include <cmath>

#include "shared/base/bytes.h"
#include "shared/tensor/blocks.h"
#include "shared/tensor/dtype.h"

namespace edgedraft::blocks {
namespace {

// Scales tried on each side of the plain one, and their spacing in levels of the largest element.
constexpr int kTriesEachSide = 9;
constexpr float kTryStep = 0.1f;

// NaN becomes `low`.
float clamped(float x, float low, float high) {
  return x >= low ? std::min(x, high) : low;
}

// Nearest level, ties to even. Many times faster than std::round: above 1.5 * 2^23 a float has no
// fraction bits.
float nearest(float x, float low, float high) {
  constexpr float kRound = 0x1.8p23f;
  return (clamped(x, low, high) + kRound) - kRound;
}

float inverse_of(float x) {
  return x != 0.0f ? 1.0f / x : 0.0f;
}

void put_level(std::byte* to, std::uint32_t shift, float level) {
  *to |= static_cast<std::byte>(static_cast<std::uint32_t>(level) << shift);
}

// Stores the level of element i of a small block: its low four bits in `fours`. Five-bit types keep
// the fifth bits in the four bytes before.
void put_small_four(std::byte* fours, std::uint32_t i, float level) {
  put_level(fours + i % 16, i / 16 * 4, level);
}
void put_small_five(std::byte* fifths, std::uint32_t i, float level) {
  const bool fifth = level >= 16.0f;
  put_level(fifths + i / 8, i % 8, fifth ? 1.0f : 0.0f);
  put_small_four(fifths + 4, i, fifth ? level - 16.0f : level);
}

// Scale that brings levels low..-low-1 closest to x. The element of largest magnitude goes to the
// side with one more level, so the scale may be negative.
float fit_scale(const float* x, std::uint32_t count, float low) {
  float extreme = 0.0f;
  for (std::uint32_t i = 0; i < count; ++i) {
    if (std::fabs(x[i]) > std::fabs(extreme)) extreme = x[i];
  }
  if (extreme == 0.0f) return 0.0f;
  float best_scale = extreme / low;
  float best_gain = 0.0f;
  for (int attempt = -kTriesEachSide; attempt <= kTriesEachSide; ++attempt) {
    const float inverse = (low + kTryStep * static_cast<float>(attempt)) / extreme;
    float products = 0.0f;
    float squares = 0.0f;
    for (std::uint32_t i = 0; i < count; ++i) {
      const float level = nearest(x[i] * inverse, low, -low - 1.0f);
      products += x[i] * level;
      squares += level * level;
    }
    // With the best scale for these levels, products / squares, the error falls by this much.
    if (squares > 0.0f && products * products > best_gain * squares) {
      best_gain = products * products / squares;
      best_scale = products / squares;
    }
  }
  return best_scale;
}

struct Line {
  float scale;
  float minimum;  // x = scale level - minimum
};

// Line on which levels 0..high are closest to the 32 elements at x. If the type stores the
// minimum unsigned, level 0 means at most zero, whatever the elements.
Line fit_line(const float* x, float high, bool minimum_has_sign) {
  const auto [lowest, largest] = std::minmax_element(x, x + kSmallCount);
  const float low = minimum_has_sign ? *lowest : std::min(*lowest, 0.0f);
  const float range = *largest - low;
  if (!(range > 0.0f)) return {0.0f, -low};
  Line best{range / high, -low};
  float best_error = INFINITY;
  constexpr auto n = static_cast<float>(kSmallCount);
  for (int attempt = -kTriesEachSide; attempt <= kTriesEachSide; ++attempt) {
    const float inverse = (high + kTryStep * static_cast<float>(attempt)) / range;
    float levels[kSmallCount];
    // Sums of levels, their squares, elements, and products of both.
    float l = 0.0f;
    float ll = 0.0f;
    float x1 = 0.0f;
    float lx = 0.0f;
    for (std::uint32_t i = 0; i < kSmallCount; ++i) {
      levels[i] = nearest((x[i] - low) * inverse, 0.0f, high);
      l += levels[i];
      ll += levels[i] * levels[i];
      x1 += x[i];
      lx += levels[i] * x[i];
    }
    const float determinant = n * ll - l * l;
    if (!(determinant > 0.0f)) continue;
    Line line{(n * lx - l * x1) / determinant, (l * lx - ll * x1) / determinant};
    if (!minimum_has_sign && line.minimum < 0.0f) line = {lx / ll, 0.0f};
    float error = 0.0f;
    for (std::uint32_t i = 0; i < kSmallCount; ++i) {
      const float off = line.scale * levels[i] - line.minimum - x[i];
      error += off * off;
    }
    if (error < best_error) {
      best_error = error;
      best = line;
    }
  }
  return best;
}

void pack_group(std::byte* packed, std::uint32_t group, float scale, float minimum) {
  const auto s = static_cast<std::uint32_t>(scale);
  const auto m = static_cast<std::uint32_t>(minimum);
  if (group < 4) {
    packed[group] |= static_cast<std::byte>(s);
    packed[group + 4] |= static_cast<std::byte>(m);
    return;
  }
  packed[group + 4] |= static_cast<std::byte>((s & 15) | (m & 15) << 4);
  packed[group - 4] |= static_cast<std::byte>((s >> 4) << 6);
  packed[group] |= static_cast<std::byte>((m >> 4) << 6);
}

// Encodes groups of 32, each on a line; `put(group, i, level)` stores a level from 0 to high.
template <class Put>
void encode_groups(const float* from, std::byte* block, float high, const Put& put) {
  Line lines[8];
  float scale_max = 0.0f;
  float minimum_max = 0.0f;
  for (std::uint32_t group = 0; group < 8; ++group) {
    lines[group] = fit_line(from + 32 * group, high, /*minimum_has_sign=*/false);
    scale_max = std::max(scale_max, lines[group].scale);
    minimum_max = std::max(minimum_max, lines[group].minimum);
  }
  store_le(block, float_to_half(scale_max / 63.0f));
  store_le(block + 2, float_to_half(minimum_max / 63.0f));
  // Continue with the values that a reader will decode.
  const float d = half_to_float(load_le<std::uint16_t>(block));
  const float m = half_to_float(load_le<std::uint16_t>(block + 2));
  for (std::uint32_t group = 0; group < 8; ++group) {
    const float scale = nearest(lines[group].scale * inverse_of(d), 0.0f, 63.0f);
    const float minimum = nearest(lines[group].minimum * inverse_of(m), 0.0f, 63.0f);
    pack_group(block + 4, group, scale, minimum);
    const float inverse = inverse_of(d * scale);
    for (std::uint32_t i = 0; i < 32; ++i) {
      put(group, i, nearest((from[32 * group + i] + m * minimum) * inverse, 0.0f, high));
    }
  }
}

// Encodes a small block of levels 0..2 middle - 1, where `middle` means zero.
template <class Put>
void encode_around_zero(DType type, const float* from, std::byte* to, float middle,
                        const Put& put) {
  std::fill_n(to, traits(type).block_bytes, std::byte{0});
  store_le(to, float_to_half(fit_scale(from, kSmallCount, -middle)));
  const float inverse = inverse_of(half_to_float(load_le<std::uint16_t>(to)));
  for (std::uint32_t i = 0; i < kSmallCount; ++i) {
    put(to + 2, i, nearest(from[i] * inverse + middle, 0.0f, 2.0f * middle - 1.0f));
  }
}

// Encodes a small block of levels 0..high on a line.
template <class Put>
void encode_on_line(DType type, const float* from, std::byte* to, float high, const Put& put) {
  std::fill_n(to, traits(type).block_bytes, std::byte{0});
  const Line line = fit_line(from, high, /*minimum_has_sign=*/true);
  store_le(to, float_to_half(line.scale));
  store_le(to + 2, float_to_half(-line.minimum));
  const float inverse = inverse_of(half_to_float(load_le<std::uint16_t>(to)));
  const float offset = half_to_float(load_le<std::uint16_t>(to + 2));
  for (std::uint32_t i = 0; i < kSmallCount; ++i) {
    put(to + 4, i, nearest((from[i] - offset) * inverse, 0.0f, high));
  }
}

}  // namespace

// The scale is rounded to float16 only after dividing, and ties round away from zero, so that files
// equal llama.cpp's bit for bit.
void encode_q8_0(const float* from, std::byte* to) {
  float largest = 0.0f;
  for (std::uint32_t i = 0; i < kSmallCount; ++i) largest = std::max(largest, std::fabs(from[i]));
  const float scale = largest / 127.0f;
  const float inverse = inverse_of(scale);
  store_le(to, float_to_half(scale));
  for (std::uint32_t i = 0; i < kSmallCount; ++i) {
    store_le(to + 2 + i,
             static_cast<std::int8_t>(clamped(std::round(from[i] * inverse), -127.0f, 127.0f)));
  }
}

void encode_q4_0(const float* from, std::byte* to) {
  encode_around_zero(DType::q4_0, from, to, 8.0f, put_small_four);
}

void encode_q4_1(const float* from, std::byte* to) {
  encode_on_line(DType::q4_1, from, to, 15.0f, put_small_four);
}

void encode_q5_0(const float* from, std::byte* to) {
  encode_around_zero(DType::q5_0, from, to, 16.0f, put_small_five);
}

void encode_q5_1(const float* from, std::byte* to) {
  encode_on_line(DType::q5_1, from, to, 31.0f, put_small_five);
}

void encode_q4_k(const float* from, std::byte* to) {
  std::fill_n(to, traits(DType::q4_k).block_bytes, std::byte{0});
  encode_groups(from, to, 15.0f, [fours = to + 16](std::uint32_t group, std::uint32_t i, float l) {
    put_level(fours + group / 2 * 32 + i, group % 2 * 4, l);
  });
}

void encode_q5_k(const float* from, std::byte* to) {
  std::fill_n(to, traits(DType::q5_k).block_bytes, std::byte{0});
  encode_groups(from, to, 31.0f, [fifths = to + 16](std::uint32_t group, std::uint32_t i, float l) {
    const bool fifth = l >= 16.0f;
    put_level(fifths + i, group, fifth ? 1.0f : 0.0f);
    put_level(fifths + 32 + group / 2 * 32 + i, group % 2 * 4, fifth ? l - 16.0f : l);
  });
}

void encode_q6_k(const float* from, std::byte* to) {
  std::fill_n(to, traits(DType::q6_k).block_bytes, std::byte{0});
  float scales[16];
  float extreme = 0.0f;
  for (std::uint32_t group = 0; group < 16; ++group) {
    scales[group] = fit_scale(from + 16 * group, 16, -32.0f);
    if (std::fabs(scales[group]) > std::fabs(extreme)) extreme = scales[group];
  }
  store_le(to + 208, float_to_half(extreme / -128.0f));
  const float d = half_to_float(load_le<std::uint16_t>(to + 208));
  for (std::uint32_t group = 0; group < 16; ++group) {
    const float scale = nearest(scales[group] * inverse_of(d), -128.0f, 127.0f);
    store_le(to + 192 + group, static_cast<std::int8_t>(scale));
    const float inverse = inverse_of(d * scale);
    for (std::uint32_t i = 16 * group; i < 16 * group + 16; ++i) {
      const auto level =
          static_cast<std::uint32_t>(nearest(from[i] * inverse + 32.0f, 0.0f, 63.0f));
      const std::uint32_t run = i % 128 / 32;
      to[i / 128 * 64 + i % 64] |= static_cast<std::byte>((level & 15) << (run / 2 * 4));
      to[128 + i / 128 * 32 + i % 32] |= static_cast<std::byte>((level >> 4) << (run * 2));
    }
  }
}

}  // namespace edgedraft::blocks
