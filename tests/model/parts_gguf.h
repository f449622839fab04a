#pragma once

#include "shared/model/convert/tokenizer_parts.h"
#include "tests/model/raw_gguf.h"

namespace edgedraft::test {

// A file's metadata with what was read from a tokenizer.json.
inline RawGguf gguf_of(const TokenizerParts& parts) {
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<std::int32_t> types;
  for (const TokenizerParts::Entry& entry : parts.entries) {
    texts.push_back(entry.text);
    scores.push_back(entry.score);
    types.push_back(static_cast<std::int32_t>(entry.type));
  }
  RawGguf raw;
  raw.add_string("tokenizer.ggml.model", parts.model);
  raw.add_string("tokenizer.ggml.pre", parts.pre);
  raw.add_strings("tokenizer.ggml.tokens", texts);
  raw.add_strings("tokenizer.ggml.merges", parts.merges);
  raw.add_numbers("tokenizer.ggml.scores", 6, scores);
  raw.add_numbers("tokenizer.ggml.token_type", 5, types);
  return raw;
}

}  // namespace edgedraft::test
