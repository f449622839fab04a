#include "shared/constraints/token_texts.h"

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <utility>

namespace edgedraft {
namespace {

// Longer texts, which no real vocabulary has, are not in the tree.
constexpr std::size_t kDepthMax = 1024;

std::vector<std::string> texts_of(const Tokenizer& tokenizer) {
  std::vector<std::string> texts;
  for (std::uint32_t id = 0; id < tokenizer.vocabulary_count(); ++id) {
    texts.push_back(tokenizer.token_bytes(id));
  }
  return texts;
}

std::vector<std::uint32_t> ends_of(const Tokenizer& tokenizer) {
  std::vector<std::uint32_t> ends;
  for (std::uint32_t id = 0; id < tokenizer.vocabulary_count(); ++id) {
    if (tokenizer.is_end(id)) ends.push_back(id);
  }
  return ends;
}

}  // namespace

TokenTexts::TokenTexts(const Tokenizer& tokenizer)
    : TokenTexts(texts_of(tokenizer), ends_of(tokenizer), tokenizer.adds_space_prefix()) {}

TokenTexts::TokenTexts(std::vector<std::string> texts, std::vector<std::uint32_t> ends,
                       bool adds_space_prefix)
    : texts_(std::move(texts)), ends_(std::move(ends)), adds_space_prefix_(adds_space_prefix) {
  std::vector<std::uint32_t> sorted(texts_.size());
  std::iota(sorted.begin(), sorted.end(), 0u);
  std::erase_if(sorted, [&](std::uint32_t id) {
    return texts_[id].empty() || texts_[id].size() > kDepthMax ||
           std::ranges::find(ends_, id) != ends_.end();
  });
  std::ranges::sort(sorted, {}, [&](std::uint32_t id) { return std::string_view(texts_[id]); });
  std::vector<std::size_t> open;  // nodes from the root to the current one
  std::string_view path;
  const auto leave = [&](std::size_t depth) {
    for (; open.size() > depth; open.pop_back()) {
      nodes_[open.back()].size = static_cast<std::uint32_t>(nodes_.size() - open.back());
    }
  };
  for (const std::uint32_t id : sorted) {
    const std::string_view text = texts_[id];
    const auto common =
        static_cast<std::size_t>(std::ranges::mismatch(path, text).in1 - path.begin());
    leave(common);
    for (std::size_t i = common; i < text.size(); ++i) {
      open.push_back(nodes_.size());
      nodes_.push_back({.byte = static_cast<std::uint8_t>(text[i]),
                        .depth = static_cast<std::uint16_t>(i + 1),
                        .size = 1,
                        .first_token = static_cast<std::uint32_t>(tokens_.size()),
                        .token_count = 0});
    }
    // Tokens with equal text are adjacent.
    ++nodes_[open.back()].token_count;
    tokens_.push_back(id);
    path = text;
  }
  leave(0);
}

}  // namespace edgedraft
