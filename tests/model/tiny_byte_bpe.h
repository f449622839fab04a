#pragma once

#include <algorithm>
#include <string>
#include <vector>

#include "shared/model/tokenizer/byte_letters.h"
#include "tests/model/raw_gguf.h"

namespace edgedraft::test {

// Byte-level vocabulary: the 256 bytes by value, merges towards " the cat", a control token, a
// marker with the type user-defined, and a real user-defined symbol.
struct TinyByteBpe {
  std::vector<std::string> texts;
  std::vector<std::int32_t> types;
  std::vector<std::string> merges;

  TinyByteBpe() {
    for (int byte = 0; byte < 256; ++byte) {
      add(std::string(letter_of(static_cast<unsigned char>(byte))), 1);
    }
    for (const auto& [left, right] :
         {std::pair("t", "h"), std::pair("Ġ", "t"), std::pair("th", "e"), std::pair("Ġ", "the"),
          std::pair("a", "t"), std::pair("Ġ", "c"), std::pair("Ġc", "at"), std::pair("a", "a"),
          std::pair("Ġ", "Ġ")}) {
      merges.push_back(std::string(left) + " " + right);
      add(std::string(left) + right, 1);
    }
    add("whole", 1);  // no merge produces it
    add("<|eot_id|>", 3);
    add("<|note|>", 4);
    add("<code>", 4);
  }

  void add(std::string text, std::int32_t type) {
    texts.push_back(std::move(text));
    types.push_back(type);
  }

  std::uint32_t id(const std::string& text) const {
    return static_cast<std::uint32_t>(std::find(texts.begin(), texts.end(), text) - texts.begin());
  }

  void add_to(RawGguf& file, const std::string& pre) const {
    file.add_string("tokenizer.ggml.model", "gpt2");
    file.add_string("tokenizer.ggml.pre", pre);
    file.add_strings("tokenizer.ggml.tokens", texts);
    file.add_strings("tokenizer.ggml.merges", merges);
    file.add_numbers("tokenizer.ggml.token_type", 5, types);
    file.add_u32("tokenizer.ggml.bos_token_id", id("<|eot_id|>"));
  }
};

}  // namespace edgedraft::test
