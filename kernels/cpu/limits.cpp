#include "kernels/cpu/amx.h"
#include "kernels/cpu/int8.h"

// What the processor can do at best, for measurements.
namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {
namespace {

// More than latency times throughput of any processor met so far, fewer than the sixteen registers
// of AVX2.
constexpr std::size_t kChains = 12;

constexpr std::size_t kLineBytes = 64;
constexpr std::size_t kChunkLines = 64;

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
  IntPart chain[kChains];
#pragma GCC unroll 12
  for (std::size_t c = 0; c < kChains; ++c) chain[c] = all_int(static_cast<std::int32_t>(c));
  std::byte quads[kChains][kQuadBytes];
  for (std::size_t i = 0; i < sizeof quads; ++i) {
    quads[i / kQuadBytes][i % kQuadBytes] = static_cast<std::byte>(i % 2);
  }
  UintPart bytes{};
  for (std::size_t round = 0; round < rounds; ++round) {
    // Weights that change with every round, or the compiler would compute ahead of the loop.
    bytes += 1;
    const QuadWeights w = quad_weights(bytes);
#pragma GCC unroll 12
    for (std::size_t c = 0; c < kChains; ++c) chain[c] = dot(chain[c], w, load_quad(quads[c]));
  }
  IntPart total = chain[0];
#pragma GCC unroll 12
  for (std::size_t c = 1; c < kChains; ++c) total += chain[c];
  store_part(sink, __builtin_convertvector(total, Part));
  return rounds * kChains * kPartLanes * 4 * 2;
}

#if defined(__AMX_INT8__)
namespace {

// Calls `products`, which multiplies tiles 4 and 5 by 6 and 7 into 0 to 3: whole tiles, nothing
// loaded. Returns the number of operations on numbers of `bytes` bytes.
template <class Products>
std::size_t chains_on_tiles(std::size_t rounds, std::size_t bytes, float* sink,
                            const Products& products) {
  TileShapes shapes;
  for (std::size_t tile = 0; tile < 8; ++tile) shapes.set(tile, kTileRowsMax, kTileRowBytesMax);
  alignas(64) std::int32_t totals[kTileRowsMax * kTileRowBytesMax / sizeof(std::int32_t)];
  {
    const Tiles tiles(shapes);  // of zeros
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

// A chunk is read while the next one is asked for at two places: of several patterns the fastest.
void read_stream(const std::byte* from, std::size_t bytes, float* sink) {
  Part totals[4] = {};
  for (std::size_t chunk = 0; chunk < bytes / (kChunkLines * kLineBytes); ++chunk) {
    const std::byte* next = from + kChunkLines * kLineBytes;
    for (std::size_t line = 0; line < kChunkLines; line += 2) {
      __builtin_prefetch(next + line / 2 * kLineBytes, 0, 2);
      __builtin_prefetch(next + (kChunkLines + line) / 2 * kLineBytes, 0, 2);
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
