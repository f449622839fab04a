#pragma once

#include <algorithm>
#include <cstdint>

#include "shaders/params.h"
#include "shared/model/config.h"
#include "shared/tensor/element_type.h"

// Scratch memory of calls, and weights with another layout than in their file; shared by backend
// and plan.
namespace edgedraft::client::vulkan {

// True if matrices of that type store integers and scales apart, so that shaders read whole words.
constexpr bool is_split(DType type) {
  return type == DType::q8_0 || type == DType::q4_0;
}

// Bytes of a stored row: of coded types in coded layout (coded_blocks.h).
// Requires  cols a multiple of the type's block
constexpr std::uint64_t stored_row_bytes(DType type, std::uint64_t cols) {
  const DTypeTraits t = traits(type);
  return cols / t.block_count * (is_coded(type) ? coded_block_bytes(type) : t.block_bytes);
}

// Words of a row of activations from quantize.comp: four int8 per word, then one scale per group,
// padded to whole vectors. Requires cols a multiple of 32.
constexpr std::uint32_t quantized_row_words(std::uint32_t cols) {
  constexpr std::uint32_t kVectorWords = 4;
  const std::uint32_t words = cols / 4 + cols / shaders::kQuantizeGroup;
  return (words + kVectorWords - 1) / kVectorWords * kVectorWords;
}

// Floats of a row of scratch memory of a delta rule: divided q and k, then gates.
constexpr std::uint64_t delta_scratch_floats(std::uint64_t key_cols, std::uint64_t value_heads) {
  return 2 * key_cols + 2 * value_heads;
}

// Output of attention.comp per split of the visible slots, for combine.comp. Rows are processed in
// batches of at most kBytesMax, but at least one row.
struct AttentionParts {
  static constexpr std::uint64_t kBytesMax = std::uint64_t{8} << 20;

  // For up to `rows_wanted` rows that attend to up to `slots` slots.
  constexpr AttentionParts(const HeadShape& heads, std::uint64_t slots, std::uint64_t rows_wanted)
      : splits(splits_of(slots)),
        row_bytes(heads.query_heads * splits * (heads.head_dim + 2) * sizeof(float)),
        rows(std::min(rows_wanted, whole_tiles(kBytesMax / row_bytes))) {}

  static constexpr std::uint64_t splits_of(std::uint64_t slots) {
    return (slots + shaders::kAttentionSplit - 1) / shaders::kAttentionSplit;
  }
  constexpr std::uint64_t bytes() const { return rows * row_bytes; }

  std::uint64_t splits;
  std::uint64_t row_bytes;
  std::uint64_t rows;

 private:
  static constexpr std::uint64_t whole_tiles(std::uint64_t count) {
    constexpr std::uint64_t kTile = shaders::kAttentionRowsMax;
    return count < kTile ? std::max<std::uint64_t>(count, 1) : count / kTile * kTile;
  }
};

// Layout of argmax.comp's memory: the tokens, then a pair of words per row and group.
struct ArgmaxPlaces {
  static constexpr std::uint64_t kPairBytes = 8;

  constexpr ArgmaxPlaces(std::uint64_t rows, std::uint64_t cols)
      : segments((cols + shaders::kArgmaxSegment - 1) / shaders::kArgmaxSegment),
        choices((rows + 1) / 2),
        end(segments > 1 ? choices + rows * segments : choices) {}

  std::uint64_t segments;  // per row
  std::uint64_t choices;   // in pairs, as `end`
  std::uint64_t end;
};

// Layout of top_k.comp's memory, in pairs of words: the result, the rows' sums, the groups' sums,
// and two areas for candidates.
struct TopKPlaces {
  static constexpr std::uint64_t kPairBytes = 8;

  constexpr TopKPlaces(std::uint64_t rows, std::uint64_t cols, std::uint64_t k)
      : segments(segments_of(cols)),
        totals(rows * k),
        sums(totals + rows),
        choices{sums + rows * segments, sums + rows * segments + rows * segments * k},
        end(choices[1] + rows * segments_of(segments * k) * k) {}

  static constexpr std::uint64_t segments_of(std::uint64_t count) {
    return (count + shaders::kTopKSegment - 1) / shaders::kTopKSegment;
  }

  std::uint64_t segments;
  std::uint64_t totals;
  std::uint64_t sums;
  std::uint64_t choices[2];
  std::uint64_t end;
};

}  // namespace edgedraft::client::vulkan
