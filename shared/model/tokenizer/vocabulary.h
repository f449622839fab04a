#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/gguf.h"
#include "shared/model/tokenizer.h"

namespace edgedraft {

// Key of all ids that end an answer, as 32-bit integers, for files with more of them than llama.cpp
// has keys.
inline constexpr std::string_view kEndIdsKey = "edgedraft.tokenizer.end_ids";
// Above any real model, whether listed there or spelled like the end of an answer.
inline constexpr std::size_t kEndIdsMax = 256;

// Above any real entry. Matching at each position of a text takes the square of this length.
inline constexpr std::size_t kEntryBytesMax = 1024;

// The entries of a tokenizer.
struct Vocabulary {
  std::vector<std::string> texts;
  std::vector<TokenType> types;
  std::optional<std::uint32_t> bos;
  std::optional<std::uint32_t> eos;
  std::optional<std::uint32_t> unknown;
  std::vector<std::uint32_t> ends;  // ids that end an answer, ascending

  bool is_end(std::uint32_t id) const;
  // True if the entry steers the model, so that user text must never become it. They include
  // control tokens, and two kinds that other tools label otherwise. One is a user-defined symbol
  // that is spelled <|so|>, <|so> or <so|>, begins a text or ends an answer. The other is an
  // ordinary entry spelled <so> that begins a text or ends an answer.
  bool is_control(std::uint32_t id) const;
};

// Keeps one entry of type unknown, as SentencePiece requires. Some files (Phi-3's) also label
// trailing padding as unknown; it becomes unused.
// Errors    bad_file: one of them begins or ends a text
Result<void> keep_one_unknown(Vocabulary& vocabulary);

// Errors    bad_file
Result<Vocabulary> read_vocabulary(const GgufFile& file);

// Byte for "<0x0A>".
std::optional<char> byte_of(std::string_view text);

}  // namespace edgedraft
