#include "kernels/cpu/simd.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {

// Twelve chains: more than latency times throughput of any processor met so far, fewer than the
// sixteen registers of AVX2.
std::size_t fma_chains(std::size_t rounds, float* sink) {
  constexpr std::size_t kChains = 12;
  Part chain[kChains];
#pragma GCC unroll 12
  for (std::size_t c = 0; c < kChains; ++c) chain[c] = all_part(static_cast<float>(c));
  const Part factor = all_part(0.999f);
  const Part addend = all_part(0.001f);
  for (std::size_t round = 0; round < rounds; ++round) {
#pragma GCC unroll 12
    for (std::size_t c = 0; c < kChains; ++c) chain[c] = fma(chain[c], factor, addend);
  }
  Part total = chain[0];
#pragma GCC unroll 12
  for (std::size_t c = 1; c < kChains; ++c) total += chain[c];
  store_part(sink, total);
  return rounds * kChains * kPartLanes * 2;
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
