#pragma once

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>
#include <vector>

#include "tests/model/raw_gguf.h"

namespace edgedraft::test {

// Vocabulary: <unk> <s> </s>, the 256 bytes, a chat symbol, then letters and merges of "the cat".
struct TinyVocabulary {
  std::vector<std::string> texts = {"<unk>", "<s>", "</s>"};
  std::vector<float> scores = {0, 0, 0};
  std::vector<std::int32_t> types = {2, 3, 3};

  TinyVocabulary() {
    for (int byte = 0; byte < 256; ++byte) {
      std::array<char, 8> text{};
      std::snprintf(text.data(), text.size(), "<0x%02X>", static_cast<unsigned>(byte));
      add(text.data(), 0, 6);
    }
    add("<|end|>", 0, 4);
    float score = -1;
    for (const char* text : {"th", "the", "\xE2\x96\x81the",
                             "\xE2\x96\x81"
                             "c",
                             "at",
                             "\xE2\x96\x81"
                             "cat",
                             "\xE2\x96\x81\xE2\x96\x81"}) {
      add(text, score--, 1);
    }
    for (const char* text : {"\xE2\x96\x81", "t", "h", "e", "c", "a", "\xC3\xA9"}) {
      add(text, score--, 1);
    }
  }

  void add(std::string text, float score, std::int32_t type) {
    texts.push_back(std::move(text));
    scores.push_back(score);
    types.push_back(type);
  }

  std::uint32_t id(const std::string& text) const {
    return static_cast<std::uint32_t>(std::find(texts.begin(), texts.end(), text) - texts.begin());
  }

  // Omits general.architecture: a file with only this is a tokenizer.
  void add_to(RawGguf& file) const {
    file.add_string("tokenizer.ggml.model", "llama");
    file.add_strings("tokenizer.ggml.tokens", texts);
    file.add_numbers("tokenizer.ggml.scores", 6, scores);
    file.add_numbers("tokenizer.ggml.token_type", 5, types);
    file.add_u32("tokenizer.ggml.bos_token_id", 1);
    file.add_u32("tokenizer.ggml.eos_token_id", id("<|end|>"));
  }
};

}  // namespace edgedraft::test
