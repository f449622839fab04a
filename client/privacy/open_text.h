#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/privacy/request_mask.h"
#include "shared/model/marked_text.h"
#include "shared/model/tokenizer.h"

namespace edgedraft::client {

// A masked text with its values restored. The part before the first placeholder is open: it depends
// on nothing private.
struct OpenText {
  MarkedText text;
  std::size_t open_bytes = 0;  // 0 also without placeholders
};
OpenText put_back(const MarkedText& masked, const Placeholders& placeholders);

// Tokens of a prompt, and the number of leading tokens that are open.
struct OpenTokens {
  std::vector<std::uint32_t> tokens;
  std::uint32_t open_count = 0;
};
// Encodes the open part and the rest separately, so that tokens of one do not depend on the other.
OpenTokens encode_apart(const OpenText& text, const Tokenizer& tokenizer);
// Like Tokenizer::begin_text. The tokens that it adds are open if there is an open part.
void begin_text(OpenTokens& tokens, const Tokenizer& tokenizer);

}  // namespace edgedraft::client
