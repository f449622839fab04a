#include "kernels/cpu/amx.h"
#include "kernels/cpu/kernels.h"

// Activations for tile_matmul.cpp. A float32 has 24 bits, which three bfloat16 of eight hold: each
// takes the top bits of the previous remainder.
#if defined(__AMX_BF16__)
namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {
namespace {

constexpr std::size_t kInputs = kSplitCellInputs;
constexpr std::size_t kRows = kSplitCellRows;
static_assert(kInputs == 2 * kRows && kRows == kTileRowsMax);

// The upper halves of 32 elements: truncated bfloat16.
EDGEDRAFT_INLINE __m512i upper_halves(__m512i first, __m512i second) {
  alignas(64) static constexpr std::uint16_t kOdd[32] = {1,  3,  5,  7,  9,  11, 13, 15, 17, 19, 21,
                                                         23, 25, 27, 29, 31, 33, 35, 37, 39, 41, 43,
                                                         45, 47, 49, 51, 53, 55, 57, 59, 61, 63};
  return _mm512_permutex2var_epi16(first, _mm512_load_si512(kOdd), second);
}

// Remainder after truncation, exact. Zero for an infinity, which would give infinity minus
// infinity.
EDGEDRAFT_INLINE __m512 rest_of(__m512 x) {
  const __m512i top = _mm512_and_si512(_mm512_castps_si512(x), _mm512_set1_epi32(~0xFFFF));
  const __m512 rest = _mm512_sub_ps(x, _mm512_castsi512_ps(top));
  return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(rest, rest, _CMP_ORD_Q), rest);
}

// Makes NaNs quiet, so that they survive truncation.
EDGEDRAFT_INLINE __m512 quiet(__m512 x) {
  const __mmask16 nan = _mm512_cmp_ps_mask(x, x, _CMP_UNORD_Q);
  const __m512i bits = _mm512_castps_si512(x);
  return _mm512_castsi512_ps(_mm512_mask_or_epi32(bits, nan, bits, _mm512_set1_epi32(0x00400000)));
}

}  // namespace

void split(const SplitArgs& a, const Work& work) {
  const std::size_t cells = a.cols / kInputs;  // per group of rows
  const __m512i down = down_a_tile();
  for (std::size_t item = work.begin; item < work.end; ++item) {
    const std::size_t first = item / cells * kRows;
    const std::size_t rows = smaller(kRows, a.rows - first);
    const float* x = a.x.data + first * a.x.stride + item % cells * kInputs;
    std::byte* cell = a.y + item * kSplitCellBytes;
    for (std::size_t row = 0; row < rows; ++row, x += a.x.stride) {
      __m512 low = quiet(_mm512_loadu_ps(x));
      __m512 high = quiet(_mm512_loadu_ps(x + kRows));
      for (std::size_t part = 0; part < kSplitParts; ++part) {
        const __m512i pairs = upper_halves(_mm512_castps_si512(low), _mm512_castps_si512(high));
        _mm512_i32scatter_epi32(cell + part * kSplitCellBytes / kSplitParts + row * sizeof(float),
                                down, pairs, sizeof(float));
        low = rest_of(low);
        high = rest_of(high);
      }
    }
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
#endif
