#include "shared/base/bytes.h"
#include "shared/tensor/blocks.h"
#include "shared/tensor/dtype.h"

namespace edgedraft::blocks {
namespace {

float half_at(const std::byte* from) {
  return half_to_float(load_le<std::uint16_t>(from));
}

std::uint32_t byte_at(const std::byte* from) {
  return std::to_integer<std::uint32_t>(*from);
}

// Element i of a small block's 32.
std::uint32_t small_four(const std::byte* fours, std::uint32_t i) {
  return byte_at(fours + i % 16) >> (i / 16 * 4) & 15u;
}
// Including its fifth bit, stored in the four bytes before them.
std::uint32_t small_five(const std::byte* fifths, std::uint32_t i) {
  return small_four(fifths + 4, i) | (load_le<std::uint32_t>(fifths) >> i & 1u) << 4;
}

// Decodes a small block; `level(levels, i)` returns the stored level.
template <class Level>
void decode_around_zero(const std::byte* from, float* to, float middle, const Level& level) {
  const float scale = half_at(from);
  for (std::uint32_t i = 0; i < kSmallCount; ++i) {
    to[i] = scale * (static_cast<float>(level(from + 2, i)) - middle);
  }
}
template <class Level>
void decode_on_line(const std::byte* from, float* to, const Level& level) {
  const float scale = half_at(from);
  const float offset = half_at(from + 2);
  for (std::uint32_t i = 0; i < kSmallCount; ++i) {
    to[i] = scale * static_cast<float>(level(from + 4, i)) + offset;
  }
}

// Element i of a group's 32: four bits of the 128 bytes that hold groups in pairs.
std::uint32_t four_bits(const std::byte* fours, std::uint32_t group, std::uint32_t i) {
  return byte_at(fours + group / 2 * 32 + i) >> (group % 2 * 4) & 15u;
}

// Decodes groups of 32 with scale and minimum; `level(group, i)` returns the stored level.
template <class Level>
void decode_groups(const std::byte* block, float* to, const Level& level) {
  const float d = half_at(block);
  const float m = half_at(block + 2);
  for (std::uint32_t group = 0; group < 8; ++group) {
    const PackedGroup packed = unpack_group(block + 4, group);
    const float scale = d * packed.scale;
    const float minimum = m * packed.minimum;
    for (std::uint32_t i = 0; i < 32; ++i) {
      to[32 * group + i] = scale * static_cast<float>(level(group, i)) - minimum;
    }
  }
}

}  // namespace

void decode_q8_0(const std::byte* from, float* to) {
  const float scale = half_at(from);
  for (std::uint32_t i = 0; i < kSmallCount; ++i) {
    to[i] = scale * static_cast<float>(load_le<std::int8_t>(from + 2 + i));
  }
}

void decode_q4_0(const std::byte* from, float* to) {
  decode_around_zero(from, to, 8.0f, small_four);
}

void decode_q4_1(const std::byte* from, float* to) {
  decode_on_line(from, to, small_four);
}

void decode_q5_0(const std::byte* from, float* to) {
  decode_around_zero(from, to, 16.0f, small_five);
}

void decode_q5_1(const std::byte* from, float* to) {
  decode_on_line(from, to, small_five);
}

void decode_q4_k(const std::byte* from, float* to) {
  decode_groups(from, to, [fours = from + 16](std::uint32_t group, std::uint32_t i) {
    return four_bits(fours, group, i);
  });
}

void decode_q5_k(const std::byte* from, float* to) {
  decode_groups(from, to, [fifths = from + 16](std::uint32_t group, std::uint32_t i) {
    const std::uint32_t fifth = byte_at(fifths + i) >> group & 1u;
    return four_bits(fifths + 32, group, i) | fifth << 4;
  });
}

void decode_q6_k(const std::byte* from, float* to) {
  const std::byte* scales = from + 192;
  const float d = half_at(from + 208);
  for (std::uint32_t i = 0; i < kLargeCount; ++i) {
    const std::uint32_t half = i / 128;
    const std::uint32_t group = i % 128 / 32;
    const std::uint32_t four = byte_at(from + half * 64 + i % 64) >> (group / 2 * 4) & 15u;
    const std::uint32_t two = byte_at(from + 128 + half * 32 + i % 32) >> (group * 2) & 3u;
    const float scale = d * static_cast<float>(load_le<std::int8_t>(scales + i / 16));
    to[i] = scale * (static_cast<float>(four | two << 4) - 32.0f);
  }
}

void decode_q2_k(const std::byte* from, float* to) {
  const std::byte* twos = from + 16;
  const float d = half_at(from + 80);
  const float m = half_at(from + 82);
  for (std::uint32_t i = 0; i < kLargeCount; ++i) {
    const std::uint32_t group = byte_at(from + i / 16);
    const std::uint32_t two = byte_at(twos + i / 128 * 32 + i % 32) >> (i / 32 % 4 * 2) & 3u;
    const float scale = d * static_cast<float>(group & 15u);
    const float minimum = m * static_cast<float>(group >> 4);
    to[i] = scale * static_cast<float>(two) - minimum;
  }
}

}  // namespace edgedraft::blocks
