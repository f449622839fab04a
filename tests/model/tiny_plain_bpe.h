#pragma once

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/model/raw_gguf.h"

namespace edgedraft::test {

// Vocabulary of the kind "gemma4": control tokens, the bytes <0x00> to <0xFF>, characters, and
// merges towards "▁the" and "the▁cat".
struct TinyPlainBpe {
  std::vector<std::string> texts;
  std::vector<std::int32_t> types;
  std::vector<std::string> merges;

  TinyPlainBpe() {
    add("<bos>", 3);
    add("<eos>", 3);
    for (unsigned byte = 0; byte < 256; ++byte) {
      std::array<char, 7> text{};
      std::snprintf(text.data(), text.size(), "<0x%02X>", byte);
      add(text.data(), 6);
    }
    for (const char* text : {"▁", "a", "c", "e", "h", "t", "é", "\n", "\n\n\n"}) add(text, 1);
    for (const auto& [left, right] :
         {std::pair("t", "h"), std::pair("th", "e"), std::pair("▁", "the"), std::pair("c", "a"),
          std::pair("▁", "ca"), std::pair("▁ca", "t"), std::pair("the", "▁cat"),
          std::pair("\n", "\n")}) {
      merges.push_back(std::string(left) + " " + right);
      add(std::string(left) + right, 1);
    }
  }

  void add(std::string text, std::int32_t type) {
    texts.push_back(std::move(text));
    types.push_back(type);
  }

  std::uint32_t id(const std::string& text) const {
    return static_cast<std::uint32_t>(std::find(texts.begin(), texts.end(), text) - texts.begin());
  }

  void add_to(RawGguf& file) const {
    file.add_string("tokenizer.ggml.model", "gemma4");
    file.add_strings("tokenizer.ggml.tokens", texts);
    file.add_strings("tokenizer.ggml.merges", merges);
    file.add_numbers("tokenizer.ggml.token_type", 5, types);
    file.add_u32("tokenizer.ggml.bos_token_id", id("<bos>"));
    file.add_u32("tokenizer.ggml.eos_token_id", id("<eos>"));
  }
};

}  // namespace edgedraft::test
