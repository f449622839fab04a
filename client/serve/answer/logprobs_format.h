#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <span>
#include <vector>

#include "shared/constraints/token_texts.h"
#include "shared/types/logprob.h"

namespace edgedraft::client {

// Log probabilities of one token of an answer.
struct ToldToken {
  std::vector<Logprob> told;    // its own, then the likeliest; never empty
  std::size_t text_offset = 0;  // characters of the answer before it
};

// Log probabilities in the shapes of /v1/chat/completions and /v1/completions.
nlohmann::ordered_json chat_logprobs(std::span<const ToldToken> tokens, const TokenTexts& texts);
nlohmann::ordered_json text_logprobs(std::span<const ToldToken> tokens, const TokenTexts& texts);

}  // namespace edgedraft::client
