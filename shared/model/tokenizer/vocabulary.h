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

// Every id that ends an answer, as 32-bit integers, in a file that has more of them than llama.cpp
// has keys for.
inline constexpr std::string_view kEndIdsKey = "edgedraft.tokenizer.end_ids";
// More than any real model has, whether listed there or spelled like the end of an answer.
inline constexpr std::size_t kEndIdsMax = 256;

// More than any real entry has. What is looked for at each place of a text takes its length
// squared.
inline constexpr std::size_t kEntryBytesMax = 1024;

// The entries of a tokenizer.
struct Vocabulary {
  std::vector<std::string> texts;
  std::vector<TokenType> types;
  std::optional<std::uint32_t> bos;
  std::optional<std::uint32_t> eos;
  std::optional<std::uint32_t> unknown;
  std::vector<std::uint32_t> ends;  // what the model ends an answer with, ascending

  bool is_end(std::uint32_t id) const;
  // Whether the entry steers the model, so that a user's text must never become it: control tokens,
  // and what files of some tools call otherwise. That is a user-defined symbol which is spelled
  // <|so|> or begins a text or ends an answer, and an ordinary entry which does that and is spelled
  // <so>.
  bool is_control(std::uint32_t id) const;
};

// Leaves one entry of the type unknown, as SentencePiece wants it: some files (Phi-3's) call the
// fillers at the end unknown too, which become unused.
// Errors    bad_file: a token that begins or ends a text is among them
Result<void> keep_one_unknown(Vocabulary& vocabulary);

// Errors    bad_file
Result<Vocabulary> read_vocabulary(const GgufFile& file);

// The byte that "<0x0A>" stands for.
std::optional<char> byte_of(std::string_view text);

}  // namespace edgedraft
