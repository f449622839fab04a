#pragma once

#include <cstdint>

#include "shaders/params.h"

// Scratch memory of calls: for the backend, and for its plan.
namespace edgedraft::vulkan {

// A row of activations as quantize.comp leaves it: four int8 a word, then the scales of its
// stretches, in whole vectors.
constexpr std::uint32_t quantized_row_words(std::uint32_t cols) {
  constexpr std::uint32_t kVectorWords = 4;
  const std::uint32_t stretches =
      (cols + shaders::kQuantizeStretch - 1) / shaders::kQuantizeStretch;
  return (cols / 4 + stretches + kVectorWords - 1) / kVectorWords * kVectorWords;
}

// Where top_k.comp has what, in pairs of words: the result, the rows' sums, the stretches' sums,
// and two places for choices.
struct TopKPlaces {
  static constexpr std::uint64_t kPairBytes = 8;

  constexpr TopKPlaces(std::uint64_t rows, std::uint64_t cols, std::uint64_t k)
      : stretches(stretches_of(cols)),
        totals(rows * k),
        sums(totals + rows),
        choices{sums + rows * stretches, sums + rows * stretches + rows * stretches * k},
        end(choices[1] + rows * stretches_of(stretches * k) * k) {}

  static constexpr std::uint64_t stretches_of(std::uint64_t count) {
    return (count + shaders::kTopKStretch - 1) / shaders::kTopKStretch;
  }

  std::uint64_t stretches;
  std::uint64_t totals;
  std::uint64_t sums;
  std::uint64_t choices[2];
  std::uint64_t end;
};

}  // namespace edgedraft::vulkan
