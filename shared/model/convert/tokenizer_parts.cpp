#include "shared/model/convert/tokenizer_parts.h"

namespace edgedraft {
namespace {

constexpr float kAddedScore = -1000.0f;  // as in llama.cpp for entries that SentencePiece lacks

}  // namespace

std::optional<std::uint32_t> TokenizerParts::find(const std::string& text) const {
  for (std::size_t i = 0; i < entries.size(); ++i) {
    if (entries[i].text == text) return static_cast<std::uint32_t>(i);
  }
  return std::nullopt;
}

void TokenizerParts::pad_to(std::size_t count) {
  while (entries.size() < count) {
    const std::string filler = "[PAD" + std::to_string(entries.size()) + "]";
    entries.push_back({filler, kAddedScore, TokenType::unused});
  }
}

void TokenizerParts::add_token(std::size_t id, std::size_t count, const std::string& text,
                               TokenType type) {
  if (id >= count) {
    left_out.insert(text);
    return;
  }
  pad_to(id + 1);
  Entry& entry = entries[id];
  if (entry.type == TokenType::unknown) return;
  if (entry.text != text) entry = {text, kAddedScore, type};
  entry.type = type;
}

void TokenizerParts::add_to(GgufMetadata& metadata) const {
  std::vector<std::string> texts;
  std::vector<float> scores;
  std::vector<std::int32_t> types;
  for (const Entry& entry : entries) {
    texts.push_back(entry.text);
    scores.push_back(entry.score);
    types.push_back(static_cast<std::int32_t>(entry.type));
  }
  metadata.set_string("tokenizer.ggml.model", model);
  metadata.set_string("tokenizer.ggml.pre", pre);
  metadata.set_strings("tokenizer.ggml.tokens", texts);
  metadata.set_i32s("tokenizer.ggml.token_type", types);
  if (model == "gpt2" || model == "gemma4") {
    metadata.set_strings("tokenizer.ggml.merges", merges);
  } else {
    metadata.set_f32s("tokenizer.ggml.scores", scores);
  }
  const auto add = [&](const char* key, std::optional<bool> value) {
    if (value) metadata.set_bool(key, *value);
  };
  if (space_rule) {
    // The nearest rule that other programs support.
    metadata.set_bool("tokenizer.ggml.add_space_prefix", *space_rule != SpaceRule::none);
    const std::string_view rule = space_rule_name(*space_rule);
    if (!rule.empty()) metadata.set_string(std::string(kSpaceRuleKey), rule);
  }
  add("tokenizer.ggml.remove_extra_whitespaces", remove_extra_whitespaces);
  add("tokenizer.ggml.add_bos_token", add_bos);
  add("tokenizer.ggml.add_eos_token", add_eos);
  if (unknown) metadata.set_u32("tokenizer.ggml.unknown_token_id", *unknown);
}

}  // namespace edgedraft
