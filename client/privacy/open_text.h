#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "client/privacy/request_mask.h"
#include "shared/model/marked_text.h"
#include "shared/model/tokenizer.h"

namespace edgedraft {

// A masked text with the values of its placeholders in their place. What stands before the first of
// them is open: it depends on nothing private.
struct OpenText {
  MarkedText text;
  std::size_t open_bytes = 0;  // 0 where it has no placeholder, too
};
OpenText put_back(const MarkedText& masked, const Placeholders& placeholders);

// Tokens of a prompt, and how many of them are open.
struct OpenTokens {
  std::vector<std::uint32_t> tokens;
  std::uint32_t open_count = 0;
};
// The open part and the rest as tokens of their own, so that the one's do not depend on the other.
OpenTokens encode_apart(const OpenText& text, const Tokenizer& tokenizer);
// Tokenizer::begin_text. What that adds is open where there is an open part.
void begin_text(OpenTokens& tokens, const Tokenizer& tokenizer);

}  // namespace edgedraft
