#include "shared/protocol/padding.h"

#include <algorithm>
#include <cstring>

#include "shared/protocol/limits.h"

namespace edgedraft {

std::uint64_t padding_bytes(std::uint32_t padded_row_bytes, std::uint64_t count,
                            std::uint64_t bytes) {
  const std::uint64_t wanted = padded_row_bytes * count;
  return wanted > bytes ? std::min<std::uint64_t>(wanted - bytes, kPaddingBytesMax) : 0;
}

Bytes make_padding(std::uint64_t count, Random& random) {
  Bytes padding(count);
  for (std::size_t at = 0; at < padding.size(); at += sizeof(std::uint64_t)) {
    const std::uint64_t bits = random();
    std::memcpy(padding.data() + at, &bits, std::min(sizeof bits, padding.size() - at));
  }
  return padding;
}

void pad(wire::Verdict& verdict, std::uint32_t rows, std::uint32_t padded_row_bytes,
         Random& random) {
  if (verdict.activations.empty()) return;
  verdict.padding =
      make_padding(padding_bytes(padded_row_bytes, rows, verdict.activations.size()), random);
}

void pad(wire::Activations& chunk, std::uint32_t padded_row_bytes, Random& random) {
  chunk.padding =
      make_padding(padding_bytes(padded_row_bytes, chunk.count, chunk.data.size()), random);
}

}  // namespace edgedraft
