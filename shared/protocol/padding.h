#pragma once

#include <cstdint>

#include "shared/base/bytes.h"
#include "shared/base/random.h"
#include "shared/protocol/message.h"

namespace edgedraft {

// What brings `count` rows of activations, `bytes` bytes as they cross the link, to
// `padded_row_bytes` each: 0 if they are as large already, at most kPaddingBytesMax.
std::uint64_t padding_bytes(std::uint32_t padded_row_bytes, std::uint64_t count,
                            std::uint64_t bytes);

// Bytes that no link can compress.
Bytes make_padding(std::uint64_t count, Random& random);

// Brings the rows of a message to that size; a verdict does not say itself how many it has. One
// without activations stays as it is.
void pad(wire::Verdict& verdict, std::uint32_t rows, std::uint32_t padded_row_bytes,
         Random& random);
void pad(wire::Activations& chunk, std::uint32_t padded_row_bytes, Random& random);

}  // namespace edgedraft
