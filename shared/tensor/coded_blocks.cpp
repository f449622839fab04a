#include "shared/tensor/coded_blocks.h"

#include <bit>
#include <cstring>

#include "shared/base/check.h"
#include "shared/tensor/blocks.h"
#include "shared/tensor/dtype.h"
#include "shared/tensor/grids.h"

namespace edgedraft::blocks {
namespace {

constexpr std::size_t kScalesAt = 2;
constexpr std::size_t kCodesAt = 18;
constexpr std::uint32_t kSignCode = 8;  // added to the code of a magnitude

std::uint32_t byte_of(const std::byte* from) {
  return std::to_integer<std::uint32_t>(*from);
}

// A large block in coded layout, all zero at first.
class CodedBlock {
 public:
  CodedBlock(std::byte* to, const std::byte* d) : to_(to) {
    std::memset(to, 0, coded_block_bytes(DType::q3_k));
    std::memcpy(to, d, sizeof(std::uint16_t));
  }
  void put_scale(std::uint32_t sixteen, std::int32_t scale) {
    to_[kScalesAt + sixteen] = static_cast<std::byte>(scale);
  }
  void put_scales(std::uint32_t group, std::int32_t scale) {
    put_scale(2 * group, scale);
    put_scale(2 * group + 1, scale);
  }
  void put_code(std::uint32_t i, std::uint32_t code) {
    to_[kCodesAt + i / 32 * 16 + i % 16] |= static_cast<std::byte>(code << i / 16 % 2 * 4);
  }
  // Elements 8 n.. of a grid point of eight twos, or of two of four threes.
  void put_twos(std::uint32_t n, std::uint32_t point, std::uint32_t signs) {
    for (std::uint32_t i = 0; i < 8; ++i) put_signed(8 * n + i, point >> 2 * i & 3u, signs >> i);
  }
  void put_threes(std::uint32_t n, std::uint32_t first, std::uint32_t second, std::uint32_t signs) {
    const std::uint32_t points = first | second << 12;
    for (std::uint32_t i = 0; i < 8; ++i) put_signed(8 * n + i, points >> 3 * i & 7u, signs >> i);
  }

 private:
  void put_signed(std::uint32_t i, std::uint32_t magnitude, std::uint32_t signs) {
    put_code(i, magnitude | (signs & 1u) * kSignCode);
  }
  std::byte* to_;
};

// Seven signs and the eighth, which makes their parity even.
std::uint32_t eight_signs(std::uint32_t seven) {
  seven &= 127u;
  return seven | (static_cast<std::uint32_t>(std::popcount(seven)) & 1u) << 7;
}

std::int32_t odd_scale(std::uint32_t four_bits) {
  return static_cast<std::int32_t>(2 * (four_bits & 15u) + 1);
}

void code_q3_k(const std::byte* from, std::byte* to) {
  const std::byte* twos = from + 32;
  const std::byte* scales = from + 96;
  CodedBlock block(to, from + 108);
  for (std::uint32_t i = 0; i < kLargeCount; ++i) {
    const std::uint32_t two = byte_of(twos + i / 128 * 32 + i % 32) >> i / 32 % 4 * 2 & 3u;
    block.put_code(i, two | (byte_of(from + i % 32) >> i / 32 & 1u) << 2);
  }
  for (std::uint32_t i = 0; i < 16; ++i) {
    const std::uint32_t low = byte_of(scales + i % 8) >> i / 8 * 4 & 15u;
    const std::uint32_t high = byte_of(scales + 8 + i % 4) >> i / 4 * 2 & 3u;
    block.put_scale(i, static_cast<std::int32_t>(low | high << 4) - 32);
  }
}

void code_iq4_xs(const std::byte* from, std::byte* to) {
  CodedBlock block(to, from);
  const std::uint32_t highs = load_le<std::uint16_t>(from + 2);
  for (std::uint32_t group = 0; group < 8; ++group) {
    const std::uint32_t low = byte_of(from + 4 + group / 2) >> group % 2 * 4 & 15u;
    const std::uint32_t high = highs >> 2 * group & 3u;
    block.put_scales(group, static_cast<std::int32_t>(low | high << 4) - 32);
  }
  std::memcpy(to + kCodesAt, from + 8, 128);
}

void code_iq3_s(const std::byte* from, std::byte* to) {
  const std::byte* points = from + 2;
  const std::byte* ninths = from + 66;
  const std::byte* signs = from + 74;
  CodedBlock block(to, from);
  const auto point = [&](std::uint32_t i) {
    return kGridIq3S[byte_of(points + i) | (byte_of(ninths + i / 8) >> i % 8 & 1u) << 8];
  };
  for (std::uint32_t n = 0; n < 32; ++n) {
    block.put_threes(n, point(2 * n), point(2 * n + 1), byte_of(signs + n));
  }
  for (std::uint32_t group = 0; group < 8; ++group) {
    block.put_scales(group, odd_scale(byte_of(from + 106 + group / 2) >> group % 2 * 4));
  }
}

void code_iq3_xxs(const std::byte* from, std::byte* to) {
  CodedBlock block(to, from);
  const auto point = [&](std::uint32_t i) { return kGridIq3Xxs[byte_of(from + 2 + i)]; };
  for (std::uint32_t group = 0; group < 8; ++group) {
    const auto word = load_le<std::uint32_t>(from + 66 + 4 * group);
    for (std::uint32_t i = 0; i < 4; ++i) {
      const std::uint32_t n = 4 * group + i;
      block.put_threes(n, point(2 * n), point(2 * n + 1), eight_signs(word >> 7 * i));
    }
    block.put_scales(group, odd_scale(word >> 28));
  }
}

void code_iq2_xxs(const std::byte* from, std::byte* to) {
  CodedBlock block(to, from);
  for (std::uint32_t group = 0; group < 8; ++group) {
    const std::byte* points = from + 2 + 8 * group;
    const auto word = load_le<std::uint32_t>(points + 4);
    for (std::uint32_t i = 0; i < 4; ++i) {
      block.put_twos(4 * group + i, kGridIq2Xxs[byte_of(points + i)], eight_signs(word >> 7 * i));
    }
    block.put_scales(group, odd_scale(word >> 28));
  }
}

// Sixteen scales of four bits.
void put_sixteen_scales(const std::byte* scales, CodedBlock& block) {
  for (std::uint32_t i = 0; i < 16; ++i) {
    block.put_scale(i, odd_scale(byte_of(scales + i / 2) >> i % 2 * 4));
  }
}

void code_iq2_xs(const std::byte* from, std::byte* to) {
  CodedBlock block(to, from);
  for (std::uint32_t n = 0; n < 32; ++n) {
    const std::uint32_t word = load_le<std::uint16_t>(from + 2 + 2 * n);
    block.put_twos(n, kGridIq2Xs[word & 511u], eight_signs(word >> 9));
  }
  put_sixteen_scales(from + 66, block);
}

void code_iq2_s(const std::byte* from, std::byte* to) {
  const std::byte* points = from + 2;
  const std::byte* signs = from + 34;
  const std::byte* highs = from + 66;
  CodedBlock block(to, from);
  for (std::uint32_t n = 0; n < 32; ++n) {
    const std::uint32_t high = byte_of(highs + n / 4) >> n % 4 * 2 & 3u;
    block.put_twos(n, kGridIq2S[byte_of(points + n) | high << 8], byte_of(signs + n));
  }
  put_sixteen_scales(from + 74, block);
}

// The scale 2^(e - 128) is below the normal floats for e < 2.
void code_mxfp4(const std::byte* from, std::byte* to) {
  const std::uint32_t e = byte_of(from);
  store_le(to, static_cast<std::uint16_t>(e < 2 ? 0x20u << e : (e - 1) << 7));
  std::memcpy(to + 2, from + 1, 16);
}

}  // namespace

void code_block(DType type, const std::byte* from, std::byte* to) {
  switch (type) {
    case DType::q3_k:
      return code_q3_k(from, to);
    case DType::iq4_xs:
      return code_iq4_xs(from, to);
    case DType::iq3_s:
      return code_iq3_s(from, to);
    case DType::iq3_xxs:
      return code_iq3_xxs(from, to);
    case DType::iq2_s:
      return code_iq2_s(from, to);
    case DType::iq2_xs:
      return code_iq2_xs(from, to);
    case DType::iq2_xxs:
      return code_iq2_xxs(from, to);
    case DType::iq4_nl:
      std::memcpy(to, from, 18);
      return;
    case DType::mxfp4:
      return code_mxfp4(from, to);
    default:
      check_failed("a type without codes", BOOST_CURRENT_LOCATION);
  }
}

void decode_coded(DType type, const std::byte* coded, float* to) {
  const CodeTable table = code_table(type);
  const std::uint32_t count = traits(type).block_count;
  const bool is_large = count == kLargeCount;
  const auto bits = load_le<std::uint16_t>(coded);
  const float d = type == DType::mxfp4 ? bfloat16_to_float(bits) : half_to_float(bits) * table.unit;
  const std::byte* codes = coded + (is_large ? kCodesAt : 2);
  for (std::uint32_t i = 0; i < count; ++i) {
    const float scale =
        is_large ? d * static_cast<float>(load_le<std::int8_t>(coded + kScalesAt + i / 16)) : d;
    const std::uint32_t code = byte_of(codes + i / 32 * 16 + i % 16) >> i / 16 % 2 * 4 & 15u;
    to[i] = scale * static_cast<float>(table.value[code]);
  }
}

}  // namespace edgedraft::blocks

namespace edgedraft {

Bytes coded(DType type, ByteView bytes) {
  const std::size_t from = traits(type).block_bytes;
  const std::size_t to = coded_block_bytes(type);
  EDGEDRAFT_CHECK(is_coded(type) && bytes.size() % from == 0);
  Bytes all(bytes.size() / from * to);
  for (std::size_t i = 0; i < bytes.size() / from; ++i) {
    blocks::code_block(type, &bytes[i * from], &all[i * to]);
  }
  return all;
}

}  // namespace edgedraft
