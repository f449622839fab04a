#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <vector>

#include "shared/model/marked_text.h"
#include "shared/model/tokenizer.h"

namespace edgedraft {

// An answer that was given before. Clients send the whole history each time, and the answer's text
// need not become the same tokens again: the model may have chosen others for it.
struct PastAnswer {
  MarkedText prompt;  // as the chat template rendered it
  std::vector<std::uint32_t> prompt_tokens;
  std::vector<std::uint32_t> answer_tokens;
};

// Those that a chat may go on from.
using PastAnswers = std::vector<std::shared_ptr<const PastAnswer>>;

// The tokens of `chat`, a later one as the template rendered it, with the answer's own among them;
// nothing if it does not go on from that answer. The answer may have been cut, as by a stop string.
std::optional<std::vector<std::uint32_t>> encode_behind(const PastAnswer& past,
                                                        const MarkedText& chat,
                                                        const Tokenizer& tokenizer);
// Those of a rendered chat, with those of our own answers in it as they were chosen.
std::vector<std::uint32_t> encode_chat(const PastAnswers& pasts, const MarkedText& chat,
                                       const Tokenizer& tokenizer);

}  // namespace edgedraft
