#pragma once

#include "kernels/cuda/attention.cuh"
#include "kernels/cuda/mma.cuh"

// Operands of matrix instructions are less precise than float32, so elements are split into
// bfloat16 terms. Queries, weights and keys and values in float32 or int8 have three, float16 has
// two, and bfloat16 one. Products are added smallest first. Zero terms add nothing, so a cache has
// the bits of a float32 cache of the same values.
namespace edgedraft::cuda::attention_tiles {

using namespace attention_detail;

// Term indices (ours, cache's) of product i; smaller products are dropped.
inline constexpr std::uint32_t kProducts = 6;
__host__ __device__ constexpr std::uint32_t our_term(std::uint32_t i) {
  return i == 0 ? 2 : i == 1 || i == 3 ? 1 : 0;
}
__host__ __device__ constexpr std::uint32_t cache_term(std::uint32_t i) {
  return i == 2 ? 2 : i == 1 || i == 4 ? 1 : 0;
}

// sums[j] += ours by the cache terms in b[j], four tiles side by side.
template <std::uint32_t kTerms>
__device__ void multiply(const std::uint32_t (&ours)[kTileTerms][4],
                         const std::uint32_t (&b)[4][kTerms][2], float (*sums)[4]) {
#pragma unroll
  for (std::uint32_t product = 0; product < kProducts; ++product) {
    const std::uint32_t term = cache_term(product);
    if (term >= kTerms) continue;
#pragma unroll
    for (std::uint32_t j = 0; j < 4; ++j) {
      mma_bfloat16(sums[j], ours[our_term(product)], b[j][term % kTerms]);
    }
  }
}

// Loads cache elements in pieces of 16 bytes.
template <DType kType>
struct Stored {
  static constexpr std::uint32_t kBytes = kType == DType::f32 ? 4 : 2;
  static constexpr std::uint32_t kPiece = 16 / kBytes;
  static constexpr std::uint32_t kTerms = kType == DType::f32 ? 3 : kType == DType::f16 ? 2 : 1;

  // Elements from d of the head at `head` on. For whole rows, data past the last element is
  // harmless: queries are zero there, and such sums are not stored. So no bounds check is needed.
  template <bool kWhole>
  __device__ static uint4 load(const std::byte* head, std::uint32_t /*first*/, std::uint32_t d,
                               std::uint32_t head_dim) {
    if (kWhole) {
      return *reinterpret_cast<const uint4*>(head + (d < head_dim ? d : 0) * kBytes);
    }
    std::uint32_t words[4] = {};
    for (std::uint32_t i = 0; i < kPiece && d + i < head_dim; ++i) {
      if (kType == DType::f32) {
        words[i] = reinterpret_cast<const std::uint32_t*>(head)[d + i];
      } else {
        words[i / 2] |= std::uint32_t{reinterpret_cast<const std::uint16_t*>(head)[d + i]}
                        << i % 2 * 16;
      }
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
  }

  __device__ static float number(const uint4& piece, std::uint32_t i) {
    if (kType == DType::f32) return __uint_as_float(word_of(piece, i));
    const auto stored = static_cast<std::uint16_t>(word_of(piece, i / 2) >> i % 2 * 16 & 0xFFFFu);
    return kType == DType::f16 ? half_to_float(stored) : bfloat16_to_float(stored);
  }

  // Elements i and i + 1 of a piece.
  __device__ static void terms_of(const uint4& piece, std::uint32_t i,
                                  std::uint32_t (&terms)[kTerms]) {
    if (kType == DType::bf16) {
      terms[0] = word_of(piece, i / 2);
    } else {
      split_numbers(number(piece, i), number(piece, i + 1), terms);
    }
  }
  // Element i of two pieces.
  __device__ static void terms_of(const uint4& first, const uint4& second, std::uint32_t i,
                                  std::uint32_t (&terms)[kTerms]) {
    if (kType == DType::bf16) {
      const std::uint32_t low = word_of(first, i / 2);
      const std::uint32_t high = word_of(second, i / 2);
      terms[0] = i % 2 == 0 ? (low & 0xFFFFu) | high << 16 : low >> 16 | (high & 0xFFFF0000u);
    } else {
      split_numbers(number(first, i), number(second, i), terms);
    }
  }
};

// Pieces of eight elements in two words, then their block's scale: pieces are inside a block. Their
// products with the scale have more bits than two terms.
template <>
struct Stored<DType::i8> {
  static constexpr std::uint32_t kPiece = 8;
  static constexpr std::uint32_t kTerms = 3;

  // As above, for whole rows, of the head that begins with element `first` of the row.
  template <bool kWhole>
  __device__ static uint4 load(const std::byte* row, std::uint32_t first, std::uint32_t d,
                               std::uint32_t head_dim) {
    static_assert(kWhole);
    const std::uint32_t i = first + (d < head_dim ? d : 0);
    const auto* block = reinterpret_cast<const std::uint32_t*>(int8_block(row, i));
    const std::uint32_t* words = block + 1 + i % kInt8Block / 4;
    return make_uint4(words[0], words[1], block[0], 0);
  }

  __device__ static float number(const uint4& piece, std::uint32_t i) {
    return int8_number(word_of(piece, i / 4) >> i % 4 * 8, __uint_as_float(piece.z));
  }
  __device__ static void terms_of(const uint4& piece, std::uint32_t i,
                                  std::uint32_t (&terms)[kTerms]) {
    split_numbers(number(piece, i), number(piece, i + 1), terms);
  }
  __device__ static void terms_of(const uint4& first, const uint4& second, std::uint32_t i,
                                  std::uint32_t (&terms)[kTerms]) {
    split_numbers(number(first, i), number(second, i), terms);
  }
};

// For other heads of int8: a piece may have elements of two blocks, so pieces are float32.
struct Int8Floats : Stored<DType::f32> {
  template <bool kWhole>
  __device__ static uint4 load(const std::byte* row, std::uint32_t first, std::uint32_t d,
                               std::uint32_t head_dim) {
    std::uint32_t words[4] = {};
    for (std::uint32_t i = 0; i < kPiece && d + i < head_dim; ++i) {
      words[i] = __float_as_uint(int8_at(row, first + d + i));
    }
    return make_uint4(words[0], words[1], words[2], words[3]);
  }
};

}  // namespace edgedraft::cuda::attention_tiles
