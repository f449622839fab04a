#include "kernels/cpu/amx.h"
#include "kernels/cpu/int8.h"

// Peak rates of the processor, for measurements.
namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {
namespace {

// Chains: above latency times throughput of known processors, below the register count (16 on AVX2,
// 32 on Arm).
#if defined(__aarch64__)
constexpr std::size_t kChains = 24;
#else
constexpr std::size_t kChains = 12;
#endif

// For int8: registers of weights times registers of activations, leaving room for operands.
#if defined(__aarch64__) && defined(EDGEDRAFT_DOT_INSTRUCTION) && \
    !defined(EDGEDRAFT_MATRIX_INSTRUCTION)
constexpr std::size_t kChainWeights = 4;
constexpr std::size_t kChainActivations = 4;
#elif defined(__aarch64__) || defined(EDGEDRAFT_DOT_INSTRUCTION)
constexpr std::size_t kChainWeights = 4;  // Arm's sums take two registers each
constexpr std::size_t kChainActivations = 3;
#elif defined(EDGEDRAFT_SHORT_SUMS)
constexpr std::size_t kChainWeights = 2;
constexpr std::size_t kChainActivations = 4;
#else
constexpr std::size_t kChainWeights = 4;
constexpr std::size_t kChainActivations = 2;
#endif

constexpr std::size_t kLineBytes = 64;

// Operations of chains of `add`, which adds kProducts products of weights and activations to a sum;
// `to_ints` converts a sum for the sink. Weights come from the first-level cache, different ones
// per round, with values depending on `rounds`, so that the compiler cannot hoist them. They are 0
// or 1, so that sums fit.
template <class Sum, std::size_t kProducts = kPartLanes * 4, class Weights, class Activations,
          class Add, class ToInts>
EDGEDRAFT_INLINE std::size_t product_chains(std::size_t rounds, float* sink,
                                            const Weights& weights_of,
                                            const Activations& activations_of, const Add& add,
                                            const ToInts& to_ints) {
  decltype(weights_of(UintPart{})) weights[2 * kChainWeights];
  for (std::size_t i = 0; i < 2 * kChainWeights; ++i) {
    weights[i] = weights_of(all_uint(static_cast<std::uint32_t>((rounds + i) % 2)));
  }
  std::byte numbers[kChainActivations + 8];
  for (std::size_t i = 0; i < sizeof numbers; ++i) {
    numbers[i] = static_cast<std::byte>((rounds + i) % 2);
  }
  decltype(activations_of(numbers)) activations[kChainActivations];
  for (std::size_t k = 0; k < kChainActivations; ++k) activations[k] = activations_of(numbers + k);
  Sum chain[kChainWeights][kChainActivations] = {};
  for (std::size_t round = 0; round < rounds; ++round) {
    const auto* w = weights + round % kChainWeights;
#pragma GCC unroll 4
    for (std::size_t i = 0; i < kChainWeights; ++i) {
#pragma GCC unroll 4
      for (std::size_t k = 0; k < kChainActivations; ++k) {
        chain[i][k] = add(chain[i][k], w[i], activations[k]);
      }
    }
  }
  IntPart total{};
  for (const auto& row : chain) {
    for (const Sum& sum : row) total += to_ints(sum);
  }
  store_part(sink, __builtin_convertvector(total, Part));
  return rounds * kChainWeights * kChainActivations * kProducts * 2;
}

}  // namespace

std::size_t fma_chains(std::size_t rounds, float* sink) {
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

std::size_t int8_chains(std::size_t rounds, float* sink) {
#if defined(EDGEDRAFT_MATRIX_INSTRUCTION)
  return product_chains<MatrixSums, 2 * kPartLanes * 8>(
      rounds, sink, [](UintPart bytes) { return pairs_of_outputs(bytes, bytes); },
      [](const std::byte* from) { return pair_of_rows(from, from); },
      [](MatrixSums sums, const PairsOfOutputs& w, int8x16_t x) {
        sums.add(x, w);
        return sums;
      },
      [](const MatrixSums& sums) { return sums.row() + sums.next_row(); });
#elif defined(__aarch64__) && defined(EDGEDRAFT_SHORT_SUMS)
  return product_chains<ShortSums>(
      rounds, sink, [](UintPart bytes) { return bytes; }, load_quad,
      [](ShortSums sums, UintPart w, int8x16_t x) {
        add_products(sums, w, x);
        return sums;
      },
      widened);
#else
  return product_chains<IntPart>(
      rounds, sink, quad_weights, load_quad,
      [](IntPart sum, const QuadWeights& w, const QuadActivations& x) { return dot(sum, w, x); },
      [](IntPart sum) { return sum; });
#endif
}

#if defined(EDGEDRAFT_SHORT_SUMS) && !defined(__aarch64__)
std::size_t short_chains(std::size_t rounds, float* sink) {
  typedef std::uint16_t Sums __attribute__((vector_size(kPartLanes * 4)));  // wraps around
  return product_chains<Sums>(
      rounds, sink, [](UintPart bytes) { return bytes; }, load_quad,
      [](Sums sums, UintPart w, IntPart x) {
        return sums + reinterpret_cast<Sums>(short_sums(w, x));
      },
      [](Sums sums) { return reinterpret_cast<IntPart>(sums); });
}
#endif

#if defined(__AMX_INT8__)
namespace {

// Calls `products`, which multiplies tiles 4 and 5 by 6 and 7 into 0 to 3: whole tiles, no loads.
// Returns the number of operations on elements of `bytes` bytes.
template <class Products>
std::size_t chains_on_tiles(std::size_t rounds, std::size_t bytes, float* sink,
                            const Products& products) {
  TileShapes shapes;
  for (std::size_t tile = 0; tile < 8; ++tile) shapes.set(tile, kTileRowsMax, kTileRowBytesMax);
  alignas(64) std::int32_t totals[kTileRowsMax * kTileRowBytesMax / sizeof(std::int32_t)];
  {
    const Tiles tiles(shapes);  // all zeros
    for (std::size_t round = 0; round < rounds; ++round) products();
    _tile_stored(0, totals, kTileRowBytesMax);
  }
  store_part(sink, __builtin_convertvector(load_bytes<IntPart>(totals), Part));
  return rounds * 4 * kTileRowsMax * kTileRowsMax * (kTileRowBytesMax / bytes) * 2;
}

}  // namespace

std::size_t tile_chains(std::size_t rounds, float* sink) {
  return chains_on_tiles(rounds, 1, sink, [] {
    _tile_dpbssd(0, 4, 6);
    _tile_dpbssd(1, 4, 7);
    _tile_dpbssd(2, 5, 6);
    _tile_dpbssd(3, 5, 7);
  });
}

std::size_t bf16_tile_chains(std::size_t rounds, float* sink) {
  return chains_on_tiles(rounds, 2, sink, [] {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  });
}
#endif

// Reads a chunk while prefetching the next one from two streams.
void read_stream(const std::byte* from, std::size_t bytes, std::size_t chunk_bytes, float* sink) {
  Part totals[4] = {};
  const std::size_t chunk_lines = (chunk_bytes != 0 ? chunk_bytes : bytes) / kLineBytes;
  for (std::size_t chunk = 0; chunk < bytes / (chunk_lines * kLineBytes); ++chunk) {
    const std::byte* next = from + chunk_lines * kLineBytes;
    for (std::size_t line = 0; line < chunk_lines; line += 2) {
      if (chunk_bytes != 0) {
        __builtin_prefetch(next + line / 2 * kLineBytes, 0, 2);
        __builtin_prefetch(next + (chunk_lines + line) / 2 * kLineBytes, 0, 2);
      }
#pragma GCC unroll 8
      for (std::size_t i = 0; i < 2 * kLineBytes; i += sizeof(Part)) {
        totals[i / sizeof(Part) % 4] += load_bytes<Part>(from + line * kLineBytes + i);
      }
    }
    from = next;
  }
  store_part(sink, (totals[0] + totals[1]) + (totals[2] + totals[3]));
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
