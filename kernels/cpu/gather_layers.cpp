#include "kernels/cpu/pages.h"
#include "kernels/cpu/weights.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {
namespace {

// Reorders a head with neighbouring pairs into halves: the first of each pair, then the second.
void copy_unpaired(const float* from, float* to, std::size_t head_dim) {
  const std::size_t half = head_dim / 2;
  for (std::size_t i = 0; i < half; ++i) {
    to[i] = from[2 * i];
    to[half + i] = from[2 * i + 1];
  }
}

constexpr std::size_t kHeadDimMax = 256;

template <class W>
void gather(const GatherLayersArgs& a, const Work& work) {
  const std::size_t head_dim = a.heads.head_dim;
  const auto row_in = [](const ConstCache& cache, std::size_t row) {
    return cache.data + row * W::row_bytes(cache.stride);
  };
  float halves[kHeadDimMax];
  for (std::size_t s = work.begin; s < work.end; ++s) {
    const std::size_t row = row_of(a.pages, a.slots[s]);
    for (std::size_t layer = 0; layer < a.layers; ++layer) {
      const std::byte* key = row_in(a.keys[layer], row);
      const std::byte* value = row_in(a.values[layer], row);
      float* y = a.y.data + (s * a.layers + layer) * a.y.stride;
      for (std::size_t head = 0; head < a.heads.kv_heads; ++head) {
        const std::size_t from = head * head_dim;
        if (a.pairs) {
          decode<W>(key, from, head_dim, halves);
          copy_unpaired(halves, y + 2 * from, head_dim);
        } else {
          decode<W>(key, from, head_dim, y + 2 * from);
        }
        decode<W>(value, from, head_dim, y + 2 * from + head_dim);
      }
    }
  }
}

}  // namespace

void gather_layers(const GatherLayersArgs& a, const Work& work) {
  if (a.layers == 0) return;
  switch (a.keys[0].type) {
    case DType::f32:
      return gather<F32>(a, work);
    case DType::f16:
      return gather<F16>(a, work);
    case DType::bf16:
      return gather<BF16>(a, work);
    case DType::i8:
      return gather<I8>(a, work);
    default:
      break;  // not a cache type
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
