#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>

#include "shared/base/error.h"
#include "shared/model/convert/tokenizer_parts.h"

namespace edgedraft {

// Reads a tokenizer.json with at most `count` entries. Byte-level BPE becomes "gpt2". BPE over
// SentencePiece's pieces becomes "llama", with scores from the order of merges, or "gemma4" if it
// has Gemma's steps. Unigram becomes "t5". `pre` names the rules of byte-level BPE; the file's own
// steps of splitting are then ignored.
//
// Source    the file format of Hugging Face's tokenizers
// Errors    bad_file; unsupported: names the construct that GGUF cannot express
Result<TokenizerParts> read_tokenizer_json(const nlohmann::json& file, std::size_t count,
                                           const std::optional<std::string>& pre = {});

// Checks that GGUF can express an added token: one that strips no white space and matches within
// words. tokenizer_config.json uses the same flags.
//
// Errors    bad_file; unsupported: names `file`, the token's text and the flag
Result<void> check_added_token(const nlohmann::json& token, const std::string& text,
                               const std::string& file);

}  // namespace edgedraft
