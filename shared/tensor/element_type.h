#pragma once

#include <cstdint>

#ifdef __CUDACC__
#define EDGEDRAFT_HOST_DEVICE __host__ __device__
#else
#define EDGEDRAFT_HOST_DEVICE
#endif

// List of element types for files, backends and kernels. nvcc compiles it too, so it includes
// nothing of ours and keeps to C++17.
namespace edgedraft {

// Element types of stored weights. Keys and values are f32, f16 or bf16; activations are always
// float32.
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
};

inline constexpr DType kDTypes[] = {DType::f32,  DType::f16,  DType::bf16, DType::q8_0,
                                    DType::q4_0, DType::q4_1, DType::q5_0, DType::q5_1,
                                    DType::q4_k, DType::q5_k, DType::q6_k};

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
  }
  return {};
}

// True for plain floats, false for blocks.
EDGEDRAFT_HOST_DEVICE constexpr bool is_float(DType type) {
  return type == DType::f32 || type == DType::f16 || type == DType::bf16;
}

}  // namespace edgedraft
