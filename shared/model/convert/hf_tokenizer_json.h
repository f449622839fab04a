#pragma once

#include <cstddef>
#include <nlohmann/json.hpp>
#include <string>

#include "shared/base/error.h"
#include "shared/model/convert/tokenizer_parts.h"

namespace edgedraft {

// A tokenizer.json, which may have at most `count` entries. Byte-level BPE becomes "gpt2"; BPE and
// Unigram over SentencePiece's pieces become "llama", its scores from the order of the merges, and
// "t5".
//
// Source    the file format of Hugging Face's tokenizers
// Errors    bad_file; unsupported: names the construct that a GGUF file cannot say
Result<TokenizerParts> read_tokenizer_json(const nlohmann::json& file, std::size_t count);

// Whether a GGUF file can say all of an added token, which a tokenizer_config.json describes with
// the same flags: it takes no white space beside it, and stands within words.
//
// Errors    bad_file; unsupported: names `file`, the token's text and the flag
Result<void> check_added_token(const nlohmann::json& token, const std::string& text,
                               const std::string& file);

}  // namespace edgedraft
