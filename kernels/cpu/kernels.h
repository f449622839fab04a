#pragma once

#include "kernels/cpu/ops.h"

#ifndef EDGEDRAFT_CPU_ISA
#define EDGEDRAFT_CPU_ISA baseline
#endif

// Byte products, added in 16 bits, without an instruction that adds four of them.
#if (defined(__AVX2__) && !defined(__AVX512F__) && !defined(__AVXVNNI__)) || \
    (defined(__aarch64__) && !defined(__ARM_FEATURE_DOTPROD))
#define EDGEDRAFT_SHORT_SUMS 1
#endif

// Entry points of one instruction set; table.cpp lists them. All definitions of a kernel's source
// are in this namespace or an anonymous one, without standard library templates. The linker keeps
// one copy of an inline function, possibly one that this processor cannot run.
namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {

// True if 8-bit weights are signed in panels (packed.h).
#if defined(EDGEDRAFT_SHORT_SUMS) || defined(__aarch64__)
inline constexpr bool kHasSignedBytes = true;
#else
inline constexpr bool kHasSignedBytes = false;
#endif

void embed(const EmbedArgs& a, const Work& work);
void rms_norm(const RmsNormArgs& a, const Work& work);
void interleave(const InterleaveArgs& a, const Work& work);
void matmul(const MatmulArgs& a, const Work& work);
void quantize(const QuantizeArgs& a, const Work& work);
void int8_matmul(const Int8MatmulArgs& a, const Work& work);
#if defined(__AMX_BF16__)
void split(const SplitArgs& a, const Work& work);
void tile_matmul(const TileMatmulArgs& a, const Work& work);
#else
inline constexpr void (*split)(const SplitArgs& a, const Work& work) = nullptr;
inline constexpr void (*tile_matmul)(const TileMatmulArgs& a, const Work& work) = nullptr;
#endif
void rope(const RopeArgs& a, const Work& work);
void store(const StoreArgs& a, const Work& work);
void attention(const AttentionArgs& a, const Work& work);
void group_attention(const GroupAttentionArgs& a, const Work& work);
void gate(const GateArgs& a, const Work& work);
void compact(const CompactArgs& a, const Work& work);
void gather_layers(const GatherLayersArgs& a, const Work& work);
void group_mean(const GroupMeanArgs& a, const Work& work);
void top_k_segment(const TopKArgs& a, const Work& work);
void top_k(const TopKArgs& a, const Work& work);
void argmax(const ArgmaxArgs& a, const Work& work);
void scale(const ScaleArgs& a, const Work& work);
void soft_cap(const SoftCapArgs& a, const Work& work);
void convolve(const ConvolutionArgs& a, const Work& work);
void delta_rule(const DeltaRuleArgs& a, const Work& work);
std::size_t fma_chains(std::size_t rounds, float* sink);
std::size_t int8_chains(std::size_t rounds, float* sink);
#if defined(EDGEDRAFT_SHORT_SUMS) && !defined(__aarch64__)
std::size_t short_chains(std::size_t rounds, float* sink);
#else
inline constexpr std::size_t (*short_chains)(std::size_t rounds, float* sink) = nullptr;
#endif
#if defined(__AMX_INT8__)
std::size_t tile_chains(std::size_t rounds, float* sink);
std::size_t bf16_tile_chains(std::size_t rounds, float* sink);
#else
inline constexpr std::size_t (*tile_chains)(std::size_t rounds, float* sink) = nullptr;
inline constexpr std::size_t (*bf16_tile_chains)(std::size_t rounds, float* sink) = nullptr;
#endif
void read_stream(const std::byte* from, std::size_t bytes, std::size_t chunk_bytes, float* sink);

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
