#include "kernels/cuda/int8_products.cuh"
#include "kernels/cuda/wide_products.cuh"

namespace edgedraft::cuda {
namespace {

using namespace int8_detail;

constexpr std::uint32_t kPieceBytes = 16;

// Groups of quantized weights and activations. In a stage the packed parts of a tile of 16 outputs
// are adjacent. After all tiles come the activations, 128 bytes per row, their scales and their
// sums. Every second row swaps neighbouring pieces, so that lanes that read two rows at once use
// all banks.
template <DType kType, class Tile>
class Int8Source {
  using Group = Weights<kType>;
  static constexpr std::uint32_t kNumberPieces = Group::kNumberWords * kWarp;
  static constexpr std::uint32_t kRestPieces = 16 * Group::kRestBits;
  static constexpr std::uint32_t kScalePieces = 8 * Group::kScaleWords;
  static constexpr std::uint32_t kFactorPieces = 2 * Group::kFactorWords;
  // Offsets of a tile's parts, and its piece count.
  static constexpr std::uint32_t kRestAt = kNumberPieces;
  static constexpr std::uint32_t kTileScalesAt = kRestAt + kRestPieces;
  static constexpr std::uint32_t kFactorsAt = kTileScalesAt + kScalePieces;
  static constexpr std::uint32_t kTilePieces = kFactorsAt + kFactorPieces;
  static constexpr std::uint32_t kTiles = Tile::kOutputs / 16;
  static constexpr std::uint32_t kRowPieces = kGroup / kPieceBytes;
  static constexpr bool kHasSums = Group::kHasSums;

  static constexpr std::uint32_t kValuesAt = kTiles * kTilePieces;
  static constexpr std::uint32_t kScalesAt = kValuesAt + Tile::kRows * kRowPieces;
  static constexpr std::uint32_t kSumsAt = kScalesAt + Tile::kRows / 4;
  static constexpr std::uint32_t kEnd = kSumsAt + (kHasSums ? Tile::kRows : 0);

  static_assert(Tile::kRows * kRowPieces % Tile::kGroupThreads == 0 &&
                Tile::kRows <= Tile::kGroupThreads);

 public:
  static constexpr std::uint32_t kPartBytes = kEnd * kPieceBytes;

  __device__ Int8Source(const Int8MatmulArgs& a, const Product& product, std::uint32_t first_output,
                        std::uint32_t first_row)
      : a_(a),
        weight_(reinterpret_cast<const uint4*>(product.weight)),
        first_tile_(first_output / 16),
        last_tile_((product.outputs - 1) / 16),
        groups_(groups(a.inputs)),
        first_row_(first_row) {}
  __device__ std::uint32_t parts() const { return groups_; }

  __device__ void copy_weights(std::byte* to, std::uint32_t group) const {
    auto* const pieces = reinterpret_cast<uint4*>(to);
    const std::uint32_t thread = thread_now() % Tile::kGroupThreads;
    // Offsets of the weight's parts (packed_layout), in pieces.
    const std::uint32_t count = (last_tile_ + 1) * groups_;
    copy_tiles<kNumberPieces>(pieces, 0, group, thread);
    copy_tiles<kRestPieces>(pieces + kRestAt, count * kRestAt, group, thread);
    copy_tiles<kScalePieces>(pieces + kTileScalesAt, count * kTileScalesAt, group, thread);
    // Two groups share them.
    copy_tiles<kFactorPieces, 2>(pieces + kFactorsAt, count * kFactorsAt, group, thread);
  }

  // Rows past the last repeat existing ones; their results are not written.
  __device__ void copy_activations(std::byte* to, std::uint32_t group) const {
    auto* const pieces = reinterpret_cast<uint4*>(to);
    const std::uint32_t thread = thread_now() % Tile::kGroupThreads;
    const std::uint32_t rows = a_.rows - first_row_;
    const std::size_t first = std::size_t{group} * a_.rows + first_row_;
    const uint4* const values = reinterpret_cast<const uint4*>(a_.values) + first * kRowPieces;
#pragma unroll
    for (std::uint32_t i = 0; i < Tile::kRows * kRowPieces; i += Tile::kGroupThreads) {
      const std::uint32_t at = i + thread;
      start_copy(pieces + kValuesAt + place(at / kRowPieces, at),
                 values + lesser(at, rows * kRowPieces - 1));
    }
    if (thread < Tile::kRows) {
      const std::size_t at = first + lesser(thread, rows - 1);
      start_copy(reinterpret_cast<float*>(pieces + kScalesAt) + thread, a_.scales + at);
      if (kHasSums) {
        start_copy(pieces + kSumsAt + thread, reinterpret_cast<const uint4*>(a_.sums) + at);
      }
    }
  }

  // Blocks of 32 inputs are the outer loop: a block is unpacked once for all rows, and only one
  // block is in registers.
  __device__ void multiply(const std::byte* from, WarpSums& sums) const {
    const std::uint32_t thread = thread_now();
    const std::uint32_t lane = thread % kWarp;
    const auto* const pieces = reinterpret_cast<const uint4*>(from);
    const auto* const tiles = pieces + Tile::warp_output(thread) / 16 * kTilePieces;
    const std::uint32_t first_row = Tile::warp_row(thread);
    WarpSums of_group = {};
#pragma unroll
    for (std::uint32_t pair = 0; pair < kBlocks / 2; ++pair) {
      uint4 words[4];
#pragma unroll
      for (std::uint32_t n = 0; n < 4; ++n) {
        const std::uint32_t row = first_row + n * 8 + lane / 4;
        words[n] = pieces[kValuesAt + place(row, row * kRowPieces + lane % 4 * 2 + pair)];
      }
#pragma unroll
      for (std::uint32_t block = 0; block < 2; ++block) {
        const std::uint32_t b = pair * 2 + block;
        std::uint32_t fragments[2][4];
        BlockScales scales[2];
#pragma unroll
        for (std::uint32_t m = 0; m < 2; ++m) {
          read_tile(tiles + m * kTilePieces, lane, b, a_.codes, fragments[m], scales[m]);
        }
#pragma unroll
        for (std::uint32_t n = 0; n < 4; ++n) {
          float of_rows[2] = {};
          if (kHasSums) {
            const auto* all =
                reinterpret_cast<const float*>(pieces + kSumsAt + first_row + n * 8 + lane % 4 * 2);
            of_rows[0] = all[b];
            of_rows[1] = all[4 + b];
          }
#pragma unroll
          for (std::uint32_t m = 0; m < 2; ++m) {
            add_block<Group>(fragments[m], scales[m], block == 0 ? words[n].x : words[n].z,
                             block == 0 ? words[n].y : words[n].w, of_rows, of_group[m][n]);
          }
        }
      }
    }
#pragma unroll
    for (std::uint32_t n = 0; n < 4; ++n) {
      const float2 scales =
          reinterpret_cast<const float2*>(pieces + kScalesAt)[(first_row + n * 8) / 2 + lane % 4];
#pragma unroll
      for (std::uint32_t i = 0; i < 4; ++i) {
        const float scale = (i % 2 == 0 ? scales.x : scales.y) * Group::unit(a_.codes);
#pragma unroll
        for (std::uint32_t m = 0; m < 2; ++m) {
          sums[m][n][i] = fmaf(scale, of_group[m][n][i], sums[m][n][i]);
        }
      }
    }
  }

 private:
  // Location of piece `at` of a row.
  __device__ static std::uint32_t place(std::uint32_t row, std::uint32_t at) {
    return at ^ (row & 1u);
  }
  __device__ static std::uint32_t lesser(std::uint32_t a, std::uint32_t b) {
    return a < b ? a : b;
  }
  // Copies kPieces of each tile, from a part that starts at piece `first` of the weight. `kShared`
  // groups share them.
  template <std::uint32_t kPieces, std::uint32_t kShared = 1>
  __device__ void copy_tiles(uint4* to, std::uint32_t first, std::uint32_t group,
                             std::uint32_t thread) const {
    if constexpr (kPieces > 0) {
#pragma unroll
      for (std::uint32_t i = 0; i < kTiles * kPieces; i += Tile::kGroupThreads) {
        const std::uint32_t at = i + thread;
        if (kTiles * kPieces % Tile::kGroupThreads != 0 && at >= kTiles * kPieces) break;
        const std::uint32_t index = at / kPieces;
        // Tiles past the last repeat the last one, as for rows.
        const std::uint32_t tile = lesser(first_tile_ + index, last_tile_);
        start_copy(to + index * kTilePieces + at % kPieces,
                   weight_ + (first + (tile * groups_ + group) / kShared * kPieces + at % kPieces));
      }
    }
  }
  // Fragment a of a tile's block b and its scales.
  __device__ static void read_tile(const uint4* tile, std::uint32_t lane, std::uint32_t b,
                                   const Codes& codes, std::uint32_t (&fragment)[4],
                                   BlockScales& scales) {
    const auto* const others = reinterpret_cast<const std::uint32_t*>(tile + kRestAt) +
                               (lane * 2 + b / 2) * Group::kRestBits;
    std::uint32_t rest[2] = {};
    if constexpr (Group::kRestBits > 0) rest[0] = others[0];
    if constexpr (Group::kRestBits > 1) rest[1] = others[1];
    Group::unpack(tile[(Group::kPacking.bits == 8 ? b : b / 2) * kWarp + lane], rest, b % 2, codes,
                  fragment);
    Group::unpack_scales(
        reinterpret_cast<const std::uint32_t*>(tile + kTileScalesAt) +
            (b * 8 + lane / 4) * Group::kScaleWords,
        reinterpret_cast<const std::uint32_t*>(tile + kFactorsAt) + lane / 4 * Group::kFactorWords,
        scales);
  }

  const Int8MatmulArgs& a_;
  const uint4* weight_;
  // In pieces, 32 bits are enough for a weight.
  std::uint32_t first_tile_;
  std::uint32_t last_tile_;
  std::uint32_t groups_;
  std::uint32_t first_row_;
};

// Blocks per multiprocessor, limited by registers.
__host__ __device__ constexpr int blocks_of(DType type) {
  return type == DType::q8_0 || type == DType::q4_0 ? 2 : 1;
}

template <DType kType, class Tile>
__global__ void __launch_bounds__(kProductThreads, blocks_of(kType))
    wide_int8_matmul_kernel(WideJob<Int8MatmulArgs> job) {
  make_wide_tile<Int8Source<kType, Tile>, Tile>(job);
}

template <DType kType, class Tile>
cudaError_t run(const Int8MatmulArgs& args, cudaStream_t stream) {
  return launch_wide<Int8Source<kType, Tile>, Tile>(wide_int8_matmul_kernel<kType, Tile>,
                                                    narrow_int8_matmul, args, stream);
}

template <class Tile>
cudaError_t run_type(const Int8MatmulArgs& args, cudaStream_t stream) {
  return for_packing_of(args.type,
                        [&](auto type) { return run<decltype(type)::value, Tile>(args, stream); });
}

}  // namespace

cudaError_t wide_int8_matmul(const Int8MatmulArgs& args, ProductKernel kernel,
                             cudaStream_t stream) {
  return kernel == ProductKernel::few_outputs ? run_type<FewOutputsTile>(args, stream)
                                              : run_type<ManyOutputsTile>(args, stream);
}

}  // namespace edgedraft::cuda
