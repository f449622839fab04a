#include "kernels/cuda/check/support.h"

namespace edgedraft::cuda::check {
namespace {

std::uint32_t byte_of(const std::byte* from) {
  return static_cast<std::uint32_t>(*from);
}

std::uint16_t word_of(const std::byte* from) {
  return static_cast<std::uint16_t>(byte_of(from) | byte_of(from + 1) << 8);
}

// Offsets of float16 scales in a block; -1: none.
struct ScalePlaces {
  int first;
  int second;
};
ScalePlaces scale_places(DType type) {
  switch (type) {
    case DType::q8_0:
    case DType::q4_0:
    case DType::q5_0:
      return {0, -1};
    case DType::q4_1:
    case DType::q5_1:
    case DType::q4_k:
    case DType::q5_k:
      return {0, 2};
    case DType::q6_k:
      return {208, -1};
    case DType::q2_k:
      return {80, 82};
    default:
      return {is_coded(type) ? 0 : -1, -1};
  }
}

struct Group {
  double scale;
  double minimum;
};
// Six-bit scale and minimum of group 0..7 of q4_k and q5_k.
Group group_of(const std::byte* block, std::uint32_t group) {
  const std::byte* packed = block + 4;
  std::uint32_t scale;
  std::uint32_t minimum;
  if (group < 4) {
    scale = byte_of(packed + group) & 63;
    minimum = byte_of(packed + group + 4) & 63;
  } else {
    scale = (byte_of(packed + group + 4) & 15) + 16 * (byte_of(packed + group - 4) >> 6);
    minimum = (byte_of(packed + group + 4) >> 4) + 16 * (byte_of(packed + group) >> 6);
  }
  return {double{half_value(word_of(block))} * scale,
          double{half_value(word_of(block + 2))} * minimum};
}

double small_block_number(DType type, const std::byte* block, std::uint32_t i) {
  const bool five = type == DType::q5_0 || type == DType::q5_1;
  const bool has_offset = type == DType::q4_1 || type == DType::q5_1;
  const std::uint32_t head = has_offset ? 4 : 2;
  std::uint32_t level = byte_of(block + head + (five ? 4 : 0) + i % 16) >> (i / 16 * 4) & 15;
  if (five) level += 16 * (byte_of(block + head + i / 8) >> (i % 8) & 1);
  const double scale{half_value(word_of(block))};
  if (has_offset) return scale * level + double{half_value(word_of(block + 2))};
  return scale * (static_cast<double>(level) - (five ? 16.0 : 8.0));
}

double coded_number(DType type, const std::byte* block, std::uint32_t i) {
  const bool is_large = traits(type).block_count == 256;
  const std::uint16_t word = word_of(block);
  double scale{type == DType::mxfp4 ? bfloat16_value(word) : half_value(word)};
  if (is_large) scale *= static_cast<std::int8_t>(byte_of(block + 2 + i / 16));
  const std::uint32_t code =
      byte_of(block + (is_large ? 18 : 2) + i / 32 * 16 + i % 16) >> (i / 16 % 2 * 4) & 15;
  const CodeTable table = code_table(type);
  return scale * double{table.unit} * table.value[code];
}

double large_block_number(DType type, const std::byte* block, std::uint32_t i) {
  const std::uint32_t group = i / 32;
  if (type == DType::q2_k) {
    const std::uint32_t both = byte_of(block + i / 16);
    const std::uint32_t two = byte_of(block + 16 + i / 128 * 32 + i % 32) >> (group % 4 * 2) & 3;
    return double{half_value(word_of(block + 80))} * (both & 15) * two -
           double{half_value(word_of(block + 82))} * (both >> 4);
  }
  if (type == DType::q6_k) {
    const std::uint32_t low = byte_of(block + i / 128 * 64 + i % 64) >> (group % 4 / 2 * 4) & 15;
    const std::uint32_t high = byte_of(block + 128 + i / 128 * 32 + i % 32) >> (group % 4 * 2) & 3;
    const auto scale = static_cast<std::int8_t>(byte_of(block + 192 + i / 16));
    return double{half_value(word_of(block + 208))} * scale *
           (static_cast<double>(low + 16 * high) - 32.0);
  }
  const Group g = group_of(block, group);
  const bool five = type == DType::q5_k;
  std::uint32_t level =
      byte_of(block + (five ? 48 : 16) + group / 2 * 32 + i % 32) >> (group % 2 * 4) & 15;
  if (five) level += 16 * (byte_of(block + 16 + i % 32) >> group & 1);
  return g.scale * level - g.minimum;
}

}  // namespace

std::vector<std::byte> random_weight(DType type, std::uint32_t rows, std::uint32_t cols,
                                     std::uint64_t seed) {
  Random random(seed);
  std::vector<std::byte> bytes(rows * row_bytes(type, cols));
  if (type == DType::f32) {
    auto* values = reinterpret_cast<float*>(bytes.data());
    for (std::size_t i = 0; i < bytes.size() / 4; ++i) values[i] = random.number();
    return bytes;
  }
  auto* words = reinterpret_cast<std::uint16_t*>(bytes.data());
  for (std::size_t i = 0; i < bytes.size() / 2; ++i) {
    const auto bits = static_cast<std::uint16_t>(random.next());
    // Exponents of magnitudes from 1/256 to 1.
    if (type == DType::f16) {
      words[i] = static_cast<std::uint16_t>((bits & 0x83FF) | (7 + bits % 8) << 10);
    } else if (type == DType::bf16) {
      words[i] = static_cast<std::uint16_t>((bits & 0x807F) | (119 + bits % 8) << 7);
    } else {
      words[i] = bits;
    }
  }
  const ScalePlaces places = scale_places(type);
  if (places.first < 0) return bytes;
  const std::size_t step = is_coded(type) ? coded_block_bytes(type) : traits(type).block_bytes;
  for (std::size_t block = 0; block < bytes.size(); block += step) {
    if (is_coded(type) && traits(type).block_count == 256) {
      // As in files: no scale is outside -32..31.
      for (std::size_t i = 2; i < 18; ++i) {
        bytes[block + i] = static_cast<std::byte>((byte_of(&bytes[block + i]) & 63) - 32);
      }
    }
    for (const int place : {places.first, places.second}) {
      if (place < 0) continue;
      // 2^-9 to 2^-7.
      const auto bits = static_cast<std::uint16_t>(
          type == DType::mxfp4 ? 118u << 7 : 6u << 10 | random.below(2048));
      bytes[block + static_cast<std::size_t>(place)] = static_cast<std::byte>(bits & 255);
      bytes[block + static_cast<std::size_t>(place) + 1] = static_cast<std::byte>(bits >> 8);
    }
  }
  return bytes;
}

double weight_number(DType type, const std::byte* row, std::uint32_t i) {
  const DTypeTraits t = traits(type);
  const std::size_t block_bytes = is_coded(type) ? coded_block_bytes(type) : t.block_bytes;
  const std::byte* block = row + i / t.block_count * block_bytes;
  const std::uint32_t k = i % t.block_count;
  if (is_coded(type)) return coded_number(type, block, k);
  switch (type) {
    case DType::f32:
      return double{reinterpret_cast<const float*>(row)[i]};
    case DType::f16:
      return double{half_value(word_of(block))};
    case DType::bf16:
      return double{bfloat16_value(word_of(block))};
    case DType::q8_0:
      return double{half_value(word_of(block))} * static_cast<std::int8_t>(byte_of(block + 2 + k));
    default:
      return t.block_count == 32 ? small_block_number(type, block, k)
                                 : large_block_number(type, block, k);
  }
}

}  // namespace edgedraft::cuda::check
