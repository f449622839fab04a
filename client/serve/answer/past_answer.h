#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "shared/model/marked_text.h"
#include "shared/model/tokenizer.h"

namespace edgedraft::client {

// An earlier answer. Clients resend the whole history, and the answer's text may tokenize
// differently from the tokens that the model chose.
struct PastAnswer {
  MarkedText prompt;  // as rendered by the chat template
  std::vector<std::uint32_t> prompt_tokens;
  std::vector<std::uint32_t> answer_tokens;
};

// Answers that a chat may continue.
using PastAnswers = std::vector<std::shared_ptr<const PastAnswer>>;

// Returns the tokens of a later rendered `chat`, with the answer's own tokens in it; empty if it
// does not continue that answer. The answer may have been cut, as by a stop string.
std::optional<std::vector<std::uint32_t>> encode_behind(const PastAnswer& past,
                                                        const MarkedText& chat,
                                                        const Tokenizer& tokenizer);
// Encodes a rendered chat, using the chosen tokens of known answers in it.
std::vector<std::uint32_t> encode_chat(const PastAnswers& pasts, const MarkedText& chat,
                                       const Tokenizer& tokenizer);

}  // namespace edgedraft::client
