#pragma once

#include <cstdint>
#include <string_view>

namespace edgedraft {

// Order of rows or columns in a source, compared with the file's. A default is the same order.
struct SourceOrder {
  std::uint32_t stored = 0;  // items of the source per expert; 0: as many as are taken
  std::uint32_t first = 0;   // first item taken, counted in the file's order
  std::uint32_t fixed = 0;   // items that come before the reordered ones
  // The others are [outer][inner][block] in the source and [inner][outer][block] in the file, once
  // or repeatedly.
  std::uint32_t outer = 1;
  std::uint32_t inner = 1;
  std::uint32_t block = 1;

  // Item of the source for item `i` of those taken.
  std::uint64_t source_of(std::uint64_t i) const {
    i += first;
    if (i < fixed) return i;
    const std::uint64_t period = std::uint64_t{outer} * inner * block;
    const std::uint64_t k = (i - fixed) % period;
    const std::uint64_t at_outer = k / block % outer;
    const std::uint64_t at_inner = k / block / outer;
    return i - k + (at_outer * inner + at_inner) * block + k % block;
  }

  bool operator==(const SourceOrder&) const = default;
};

// How a source's elements become a tensor of the file.
struct SourceLayout {
  SourceOrder rows = {};
  SourceOrder cols = {};
  bool transposed = false;         // the source's rows are columns
  bool negative_exponent = false;  // x is stored as log(-x)
  bool adds_one = false;           // x is stored as x - 1

  bool operator==(const SourceLayout&) const = default;
};

// Where Hugging Face's layout has a tensor, after "model.layers.N.".
struct HfSource {
  std::string_view name = {};  // '#' stands for an expert's number; empty: not converted
  // Tensor with a scale for each block of MXFP4, whose codes are under `name`; empty: none.
  std::string_view scales = {};
  SourceLayout layout = {};
};

}  // namespace edgedraft
