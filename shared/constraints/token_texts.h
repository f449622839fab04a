#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "shared/model/tokenizer.h"

namespace edgedraft {

// Text of each token of a vocabulary, as a list and as a tree over bytes.
//
// Threads   constant
class TokenTexts {
 public:
  explicit TokenTexts(const Tokenizer& tokenizer);
  // `texts` by id; control tokens have empty texts.
  TokenTexts(std::vector<std::string> texts, std::vector<std::uint32_t> ends,
             bool adds_space_prefix);

  std::uint32_t count() const { return static_cast<std::uint32_t>(texts_.size()); }
  // Bytes of a token; empty for control tokens.
  std::string_view text(std::uint32_t token) const { return texts_[token]; }
  // Tokens that end an answer.
  std::span<const std::uint32_t> ends() const { return ends_; }
  // True if the tokenizer puts a space before a text that is not part of it.
  bool adds_space_prefix() const { return adds_space_prefix_; }

  // Tree nodes in depth-first order. `size` counts a node and its descendants, which follow it;
  // tokens()[first_token .. next node's) end at the node.
  struct Node {
    std::uint8_t byte;
    std::uint16_t depth;  // 1 for a first byte
    std::uint32_t size;
    std::uint32_t first_token;
    std::uint32_t token_count;
  };
  std::span<const Node> nodes() const { return nodes_; }
  std::span<const std::uint32_t> tokens() const { return tokens_; }

 private:
  std::vector<std::string> texts_;
  std::vector<std::uint32_t> ends_;
  bool adds_space_prefix_;
  std::vector<Node> nodes_;
  std::vector<std::uint32_t> tokens_;
};

}  // namespace edgedraft
