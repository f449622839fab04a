#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/gguf_writer.h"
#include "shared/model/tokenizer.h"
#include "shared/model/tokenizer/space_rule.h"

namespace edgedraft {

// A tokenizer to be written: what the metadata of a GGUF file says of one.
struct TokenizerParts {
  struct Entry {
    std::string text;
    float score = 0.0f;
    TokenType type = TokenType::normal;
  };

  std::string model;  // tokenizer.ggml.model
  std::string pre = "default";
  std::vector<Entry> entries;
  std::vector<std::string> merges;               // "gpt2" alone
  std::optional<std::uint32_t> unknown;          // SentencePiece alone
  std::optional<SpaceRule> space_rule;           // SentencePiece alone
  std::optional<bool> remove_extra_whitespaces;  // SentencePiece alone
  std::optional<bool> add_bos;
  std::optional<bool> add_eos;
  std::optional<std::uint32_t> bos;  // what the tokenizer itself puts before a text
  std::set<std::string> left_out;    // added tokens for which the model has no row

  std::optional<std::uint32_t> find(const std::string& text) const;
  // Makes entry `id`, which may lie behind the last; those between are unused. One that is not
  // below `count` is left out: folders name a padding token so, which no text ever becomes.
  void add_token(std::size_t id, std::size_t count, const std::string& text, TokenType type);
  // Unused entries up to `count`.
  void pad_to(std::size_t count);

  // All but the ids of special tokens.
  void add_to(GgufMetadata& metadata) const;
};

}  // namespace edgedraft
