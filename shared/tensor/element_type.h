#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define EDGEDRAFT_HOST_DEVICE __host__ __device__
#else
#define EDGEDRAFT_HOST_DEVICE
#endif

// Lists that files, backends and kernels share: element types, and activations at the end. nvcc
// compiles them too, so this header includes nothing of ours and keeps to C++17.
namespace edgedraft {

// Element types of stored weights, and i8. Keys and values are f32, f16, bf16 or i8; activations
// are always float32.
enum class DType : std::uint8_t {
  f32,
  f16,
  bf16,
  // Blocks (blocks.h): of 32, and the "K" types of 256.
  q8_0,
  q4_0,
  q4_1,
  q5_0,
  q5_1,
  q4_k,
  q5_k,
  q6_k,
  // Read only (is_writable).
  q2_k,
  // Coded (coded_blocks.h): blocks of 256, then of 32.
  q3_k,
  iq4_xs,
  iq3_s,
  iq3_xxs,
  iq2_s,
  iq2_xs,
  iq2_xxs,
  iq4_nl,
  mxfp4,
  // Keys and values only, so not in kDTypes: blocks of a float32 scale and 32 int8 (kCacheTypes).
  i8,
};

inline constexpr DType kDTypes[] = {
    DType::f32,     DType::f16,    DType::bf16,  DType::q8_0,    DType::q4_0,  DType::q4_1,
    DType::q5_0,    DType::q5_1,   DType::q4_k,  DType::q5_k,    DType::q6_k,  DType::q2_k,
    DType::q3_k,    DType::iq4_xs, DType::iq3_s, DType::iq3_xxs, DType::iq2_s, DType::iq2_xs,
    DType::iq2_xxs, DType::iq4_nl, DType::mxfp4};

// Types that keys and values may have. A row of i8 ends with a whole block, of which the first
// elements may be used. An element is its int8 times the block's scale, in float32.
//   scale = largest / 127, int8 = round(x / scale), both quotients in float32, the second rounded
//   to nearest, ties to even; `largest` is the largest magnitude of the block's elements in use.
// If that is below kInt8Smallest, scale and int8 are 0. A scale is at most kInt8ScaleMax, so that
// finite elements stay finite. If an element is infinite or NaN, scale is NaN and int8 is 0: the
// block reads as NaN.
inline constexpr DType kCacheTypes[] = {DType::f32, DType::f16, DType::bf16, DType::i8};
inline constexpr std::uint32_t kInt8Block = 32;
inline constexpr std::uint32_t kInt8BlockBytes = 36;
inline constexpr float kInt8Smallest = 0x1p-100f;
inline constexpr float kInt8ScaleMax = 0x1.020406p121f;

struct DTypeTraits {
  const char* name;           // as in --type and reports; device code cannot make a string_view
  std::uint32_t block_count;  // elements per block
  std::uint32_t block_bytes;
};

EDGEDRAFT_HOST_DEVICE constexpr DTypeTraits traits(DType type) {
  switch (type) {
    case DType::f32:
      return {"f32", 1, 4};
    case DType::f16:
      return {"f16", 1, 2};
    case DType::bf16:
      return {"bf16", 1, 2};
    case DType::q8_0:
      return {"q8_0", 32, 34};
    case DType::q4_0:
      return {"q4_0", 32, 18};
    case DType::q4_1:
      return {"q4_1", 32, 20};
    case DType::q5_0:
      return {"q5_0", 32, 22};
    case DType::q5_1:
      return {"q5_1", 32, 24};
    case DType::q4_k:
      return {"q4_k", 256, 144};
    case DType::q5_k:
      return {"q5_k", 256, 176};
    case DType::q6_k:
      return {"q6_k", 256, 210};
    case DType::q2_k:
      return {"q2_k", 256, 84};
    case DType::q3_k:
      return {"q3_k", 256, 110};
    case DType::iq4_xs:
      return {"iq4_xs", 256, 136};
    case DType::iq3_s:
      return {"iq3_s", 256, 110};
    case DType::iq3_xxs:
      return {"iq3_xxs", 256, 98};
    case DType::iq2_s:
      return {"iq2_s", 256, 82};
    case DType::iq2_xs:
      return {"iq2_xs", 256, 74};
    case DType::iq2_xxs:
      return {"iq2_xxs", 256, 66};
    case DType::iq4_nl:
      return {"iq4_nl", 32, 18};
    case DType::mxfp4:
      return {"mxfp4", 32, 17};
    case DType::i8:
      return {"int8", kInt8Block, kInt8BlockBytes};
  }
  return {};
}

// True for plain floats, false for blocks.
EDGEDRAFT_HOST_DEVICE constexpr bool is_float(DType type) {
  return type == DType::f32 || type == DType::f16 || type == DType::bf16;
}

// True for types that keys and values may have.
EDGEDRAFT_HOST_DEVICE constexpr bool is_cache_type(DType type) {
  return is_float(type) || type == DType::i8;
}
// Elements between consecutive rows of a cache type: whole blocks.
EDGEDRAFT_HOST_DEVICE constexpr std::uint64_t cache_stride(DType type, std::uint64_t cols) {
  return type == DType::i8 ? (cols + kInt8Block - 1) / kInt8Block * kInt8Block : cols;
}
// Bytes of `count` elements of a cache type: of a row, or of rows `cache_stride` apart.
EDGEDRAFT_HOST_DEVICE constexpr std::uint64_t cache_bytes(DType type, std::uint64_t count) {
  if (type == DType::i8) return (count + kInt8Block - 1) / kInt8Block * kInt8BlockBytes;
  return count * (type == DType::f32 ? 4 : 2);
}

// True if elements are codes of four bits into a table, once their grids are resolved.
EDGEDRAFT_HOST_DEVICE constexpr bool is_coded(DType type) {
  return type >= DType::q3_k && type <= DType::mxfp4;
}

// True if quantize_row can encode it.
constexpr bool is_writable(DType type) {
  return type < DType::q2_k;
}

// Elements of a coded type: x = unit scale value[code], with the scale that the block holds.
struct CodeTable {
  std::int8_t value[16];
  float unit;  // a power of two
};
EDGEDRAFT_HOST_DEVICE constexpr CodeTable code_table(DType type) {
  switch (type) {
    case DType::q3_k:
      return {{-4, -3, -2, -1, 0, 1, 2, 3}, 1.0f};
    case DType::iq3_s:
      return {{1, 3, 5, 7, 9, 11, 13, 15, -1, -3, -5, -7, -9, -11, -13, -15}, 1.0f};
    case DType::iq3_xxs:
      return {{2, 6, 10, 14, 18, 22, 26, 31, -2, -6, -10, -14, -18, -22, -26, -31}, 0.5f};
    case DType::iq2_s:
    case DType::iq2_xs:
    case DType::iq2_xxs:
      return {{8, 25, 43, 0, 0, 0, 0, 0, -8, -25, -43}, 0.125f};
    case DType::mxfp4:
      return {{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12}, 1.0f};
    default:  // iq4_nl, iq4_xs
      return {{-127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113}, 1.0f};
  }
}

// Bytes per block in coded layout (coded_blocks.h).
EDGEDRAFT_HOST_DEVICE constexpr std::uint32_t coded_block_bytes(DType type) {
  return traits(type).block_count == 32 ? 18 : 146;
}

// Function of a gate before it multiplies (GateOp in shared/runtime/backend.h).
enum class Activation : std::uint8_t {
  silu,      // g / (1 + e^-g)
  gelu,      // the tanh form
  clamped,   // gpt-oss: limits both factors
  sigmoid,   // 1 / (1 + e^-g)
  identity,  // g
};

}  // namespace edgedraft
