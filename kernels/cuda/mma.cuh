#pragma once

#include "kernels/cuda/device.cuh"

// Matrix instructions of a warp, c += a b, with the fragments of PTX's mma. Lane 4 g + t holds
//   c  rows g, g + 8 (of 16), columns 2 t, 2 t + 1 (of 8): {(g, 2t), (g, 2t+1), (g+8, 2t), ...}
// and, of a (16 rows) and b (8 columns: column g), the words listed at each function. If the
// processor lacks the instruction, and on the host, lanes exchange fragments through shared memory.
//
// Source    PTX ISA, "Matrix fragments for mma.m16n8k32", "mma.m16n8k16" and "mma.m16n8k8"
namespace edgedraft::cuda {

#if !defined(__CUDA_ARCH__) || __CUDA_ARCH__ < 800
#define EDGEDRAFT_EMULATED_MMA 1
#endif

// Maximum warps per block that call these; sizes the shared memory for exchanges.
inline constexpr std::uint32_t kMmaWarpsMax = 8;

#if defined(EDGEDRAFT_EMULATED_MMA)
struct MmaFragments {
  std::uint32_t a[4];
  std::uint32_t b[2];
};
// c += a b; multiply(c, word of a, word of b) adds the products of two words.
template <class Sum, class Multiply>
__device__ void emulate_mma(Sum (&c)[4], const std::uint32_t (&a)[4], const std::uint32_t (&b)[2],
                            const Multiply& multiply) {
  __shared__ MmaFragments memory[kMmaWarpsMax][kWarp];
  MmaFragments* const lanes = memory[threadIdx.x / kWarp];
  __syncwarp();
  MmaFragments& mine = lanes[threadIdx.x % kWarp];
  for (std::uint32_t i = 0; i < 4; ++i) mine.a[i] = a[i];
  for (std::uint32_t i = 0; i < 2; ++i) mine.b[i] = b[i];
  __syncwarp();
  const std::uint32_t g = threadIdx.x % kWarp / 4;
  const std::uint32_t t = threadIdx.x % 4;
  for (std::uint32_t i = 0; i < 4; ++i) {
    const std::uint32_t row = i / 2;
    const std::uint32_t column = 2 * t + i % 2;
    for (std::uint32_t half = 0; half < 2; ++half) {
      for (std::uint32_t k = 0; k < 4; ++k) {
        multiply(c[i], lanes[4 * g + k].a[row + 2 * half], lanes[4 * column + k].b[half]);
      }
    }
  }
}
#endif

// Word i of 16 bytes.
__device__ inline std::uint32_t word_of(const uint4& v, std::uint32_t i) {
  return i == 0 ? v.x : i == 1 ? v.y : i == 2 ? v.z : v.w;
}

// int8, 32 products. Bytes 4 t.. and 16 + 4 t.. of a row: a = {row g low, row g + 8 low, row g
// high, row g + 8 high}, b = {column g low, column g high}.
__device__ inline void mma_int8(std::int32_t (&c)[4], const std::uint32_t (&a)[4],
                                const std::uint32_t (&b)[2]) {
#if defined(EDGEDRAFT_EMULATED_MMA)
  emulate_mma(c, a, b, [](std::int32_t& sum, std::uint32_t x, std::uint32_t y) {
    sum = __dp4a(static_cast<std::int32_t>(x), static_cast<std::int32_t>(y), sum);
  });
#else
  asm volatile(
      "mma.sync.aligned.m16n8k32.row.col.s32.s8.s8.s32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

// int8, 16 products. Bytes 4 t.. of a row: a = {row g, row g + 8}, b = column g.
__device__ inline void mma_int8_16(std::int32_t (&c)[4], const std::uint32_t (&a)[2],
                                   std::uint32_t b) {
#if defined(EDGEDRAFT_EMULATED_MMA)
  mma_int8(c, {a[0], a[1], 0, 0}, {b, 0});
#else
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.s32.s8.s8.s32 "
      "{%0, %1, %2, %3}, {%4, %5}, {%6}, {%0, %1, %2, %3};"
      : "+r"(c[0]), "+r"(c[1]), "+r"(c[2]), "+r"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(b));
#endif
}

// bfloat16, 16 products, two elements per word, the first in the low half. Words t and t + 4 of a
// row: a = {row g first, row g + 8 first, row g second, row g + 8 second}, b = {column g first,
// column g second}.
__device__ inline void mma_bfloat16(float (&c)[4], const std::uint32_t (&a)[4],
                                    const std::uint32_t (&b)[2]) {
#if defined(EDGEDRAFT_EMULATED_MMA)
  emulate_mma(c, a, b, [](float& sum, std::uint32_t x, std::uint32_t y) {
    sum = fmaf(__uint_as_float(x << 16), __uint_as_float(y << 16), sum);
    sum = fmaf(__uint_as_float(x & 0xFFFF0000u), __uint_as_float(y & 0xFFFF0000u), sum);
  });
#else
  asm volatile(
      "mma.sync.aligned.m16n8k16.row.col.f32.bf16.bf16.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

// Splits two float32 elements into bfloat16 terms, largest first; each word holds one term of both.
// Three terms hold the whole mantissa.
template <std::uint32_t kTerms>
__device__ void split_numbers(float first, float second, std::uint32_t (&terms)[kTerms]) {
#pragma unroll
  for (std::uint32_t i = 0; i < kTerms; ++i) {
    terms[i] = bfloat16_pair(first, second);
    first -= __uint_as_float(terms[i] << 16);
    second -= __uint_as_float(terms[i] & 0xFFFF0000u);
  }
}

// TF32 elements in float32, 8 products. Elements t and t + 4 of a row: a = {row g first, row g + 8
// first, row g second, row g + 8 second}, b = {column g first, column g second}.
__device__ inline void mma_tf32(float (&c)[4], const std::uint32_t (&a)[4],
                                const std::uint32_t (&b)[2]) {
#if defined(EDGEDRAFT_EMULATED_MMA)
  emulate_mma(c, a, b, [](float& sum, std::uint32_t x, std::uint32_t y) {
    sum = fmaf(__uint_as_float(x), __uint_as_float(y), sum);
  });
#else
  asm volatile(
      "mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 "
      "{%0, %1, %2, %3}, {%4, %5, %6, %7}, {%8, %9}, {%0, %1, %2, %3};"
      : "+f"(c[0]), "+f"(c[1]), "+f"(c[2]), "+f"(c[3])
      : "r"(a[0]), "r"(a[1]), "r"(a[2]), "r"(a[3]), "r"(b[0]), "r"(b[1]));
#endif
}

}  // namespace edgedraft::cuda
