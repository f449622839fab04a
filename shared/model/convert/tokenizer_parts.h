#pragma once

#include <cstdint>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "shared/model/gguf_writer.h"
#include "shared/model/tokenizer.h"
#include "shared/model/tokenizer/space_rule.h"

namespace edgedraft {

// Tokenizer metadata of a GGUF file to be written.
struct TokenizerParts {
  struct Entry {
    std::string text;
    float score = 0.0f;
    TokenType type = TokenType::normal;
  };

  std::string model;  // tokenizer.ggml.model
  std::string pre = "default";
  std::vector<Entry> entries;
  std::vector<std::string> merges;               // only for "gpt2" and "gemma4"
  std::optional<std::uint32_t> unknown;          // only for SentencePiece
  std::optional<SpaceRule> space_rule;           // only for SentencePiece
  std::optional<bool> remove_extra_whitespaces;  // only for SentencePiece
  std::optional<bool> add_bos;
  std::optional<bool> add_eos;
  std::optional<std::uint32_t> bos;  // put before a text by the tokenizer itself
  std::set<std::string> left_out;    // added tokens without a row in the model

  std::optional<std::uint32_t> find(const std::string& text) const;
  // Sets entry `id`; ids between the last entry and this one are unused. Ids from `count` on are
  // skipped: folders list padding tokens there, which no text produces.
  void add_token(std::size_t id, std::size_t count, const std::string& text, TokenType type);
  // Adds unused entries up to `count`.
  void pad_to(std::size_t count);

  // Everything but the ids of special tokens.
  void add_to(GgufMetadata& metadata) const;
};

}  // namespace edgedraft
