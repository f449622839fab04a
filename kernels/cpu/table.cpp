#include "kernels/cpu/kernels.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {

#define EDGEDRAFT_NAME_OF(isa) EDGEDRAFT_QUOTE(isa)
#define EDGEDRAFT_QUOTE(isa) #isa

extern const Kernels kernels;
const Kernels kernels{.name = EDGEDRAFT_NAME_OF(EDGEDRAFT_CPU_ISA),
                      .signed_bytes = kHasSignedBytes,
                      .embed = embed,
                      .rms_norm = rms_norm,
                      .interleave = interleave,
                      .matmul = matmul,
                      .quantize = quantize,
                      .int8_matmul = int8_matmul,
                      .split = split,
                      .tile_matmul = tile_matmul,
                      .rope = rope,
                      .store = store,
                      .attention = attention,
                      .group_attention = group_attention,
                      .gate = gate,
                      .compact = compact,
                      .gather_layers = gather_layers,
                      .group_mean = group_mean,
                      .top_k_segment = top_k_segment,
                      .top_k = top_k,
                      .argmax = argmax,
                      .scale = scale,
                      .soft_cap = soft_cap,
                      .convolve = convolve,
                      .delta_rule = delta_rule,
                      .fma_chains = fma_chains,
                      .int8_chains = int8_chains,
                      .short_chains = short_chains,
                      .tile_chains = tile_chains,
                      .bf16_tile_chains = bf16_tile_chains,
                      .read_stream = read_stream};

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
