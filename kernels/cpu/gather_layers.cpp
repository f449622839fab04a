#include "kernels/cpu/pages.h"
#include "kernels/cpu/simd.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {
namespace {

// A head whose pairs are neighbours, in the order of halves: the first of each pair, then the
// second.
void copy_unpaired(const float* from, float* to, std::size_t head_dim) {
  const std::size_t half = head_dim / 2;
  for (std::size_t i = 0; i < half; ++i) {
    to[i] = from[2 * i];
    to[half + i] = from[2 * i + 1];
  }
}

}  // namespace

void gather_layers(const GatherLayersArgs& a, const Work& work) {
  const std::size_t head_dim = a.heads.head_dim;
  for (std::size_t s = work.begin; s < work.end; ++s) {
    const std::size_t row = row_of(a.pages, a.slots[s]);
    for (std::size_t layer = 0; layer < a.layers; ++layer) {
      const float* key = a.keys[layer].data + row * a.keys[layer].stride;
      const float* value = a.values[layer].data + row * a.values[layer].stride;
      float* y = a.y.data + (s * a.layers + layer) * a.y.stride;
      for (std::size_t head = 0; head < a.heads.kv_heads; ++head) {
        const std::size_t from = head * head_dim;
        if (a.pairs) {
          copy_unpaired(key + from, y + 2 * from, head_dim);
        } else {
          std::memcpy(y + 2 * from, key + from, head_dim * sizeof(float));
        }
        std::memcpy(y + 2 * from + head_dim, value + from, head_dim * sizeof(float));
      }
    }
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
