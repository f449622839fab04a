#pragma once

#include "shared/model/convert/tokenizer_parts.h"
#include "shared/model/tokenizer/space_rule.h"
#include "tests/model/raw_gguf.h"

namespace edgedraft::test {

// File metadata with the parts read from a tokenizer.json.
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
  if (parts.space_rule) {
    raw.add_bool("tokenizer.ggml.add_space_prefix", *parts.space_rule != SpaceRule::none);
    const std::string rule(space_rule_name(*parts.space_rule));
    if (!rule.empty()) raw.add_string(std::string(kSpaceRuleKey), rule);
  }
  return raw;
}

}  // namespace edgedraft::test
