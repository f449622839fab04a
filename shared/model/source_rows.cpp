#include "shared/model/source_rows.h"

#include <algorithm>
#include <cstring>

namespace edgedraft {
namespace {

constexpr std::size_t kBlockCodes = 16;  // bytes of a block of 32 elements

// Code of element `i` of a block in Hugging Face's order: neighbours share a byte.
std::uint8_t code_of(const std::byte* block, std::size_t i) {
  return (static_cast<std::uint8_t>(block[i / 2]) >> (i % 2 * 4)) & 15;
}

}  // namespace

SourceRows::SourceRows(const PlannedTensor& tensor) : tensor_(tensor), cols_(tensor.info.dims[0]) {
  rows_ = 1;
  for (std::size_t i = 1; i < tensor.info.dims.size(); ++i) rows_ *= tensor.info.dims[i];
  rows_ /= tensor.experts;
  const auto stored = [](const SourceOrder& order, std::uint64_t taken) {
    return order.stored == 0 ? taken : order.stored;
  };
  stored_rows_ = stored(tensor.layout.rows, rows_);
  stored_cols_ = stored(tensor.layout.cols, cols_);
}

void SourceRows::read(std::uint64_t row, Bytes& out) const {
  const SourceLayout& layout = tensor_.layout;
  const std::uint64_t expert = row / rows_;
  const std::uint64_t within = layout.rows.source_of(row % rows_);
  const bool is_first = tensor_.further.empty() || expert == 0;
  const ByteView source = is_first ? tensor_.source : tensor_.further[expert - 1];
  const std::uint64_t matrix = tensor_.further.empty() ? expert : 0;
  out.resize(*row_bytes(tensor_.source_type, cols_));
  if (!tensor_.scales.empty()) {
    read_mxfp4(matrix * stored_rows_ + within, out);
    return;
  }
  const std::uint64_t source_row = matrix * stored_rows_ + within;
  if (!layout.transposed && layout.cols == SourceOrder{}) {
    const ByteView whole = source.subspan(source_row * out.size(), out.size());
    std::copy(whole.begin(), whole.end(), out.begin());
    return;
  }
  const std::size_t element = out.size() / cols_;  // weights of a checkpoint are no blocks
  for (std::uint64_t c = 0; c < cols_; ++c) {
    const std::uint64_t from = layout.cols.source_of(c);
    const std::uint64_t at = layout.transposed
                                 ? (matrix * stored_cols_ + from) * stored_rows_ + within
                                 : source_row * stored_cols_ + from;
    std::memcpy(out.data() + c * element, source.subspan(at * element, element).data(), element);
  }
}

// A block of the file has its scale first, and a byte joins elements i and i + 16.
void SourceRows::read_mxfp4(std::uint64_t source_row, Bytes& out) const {
  const std::uint64_t blocks = cols_ / (2 * kBlockCodes);
  std::byte* to = out.data();
  for (std::uint64_t b = source_row * blocks; b < (source_row + 1) * blocks; ++b) {
    const std::byte* const codes = tensor_.source.data() + b * kBlockCodes;
    *to++ = tensor_.scales[b];
    for (std::size_t i = 0; i < kBlockCodes; ++i) {
      *to++ = static_cast<std::byte>(code_of(codes, i) | code_of(codes, i + kBlockCodes) << 4);
    }
  }
}

}  // namespace edgedraft
