#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/gguf.h"
#include "shared/model/sentencepiece_proto.h"
#include "shared/model/tokenizer/vocabulary.h"

namespace edgedraft {

// Encoder without special tokens.
//
// Threads   const methods may run concurrently
class TextEncoder {
 public:
  virtual ~TextEncoder() = default;

  // Appends the ids of a text, which may be empty and hold any bytes.
  virtual void encode(std::string_view text, std::vector<std::uint32_t>& ids) const = 0;
  // Bytes that an entry, spelled `text`, adds to a text.
  virtual std::string bytes_of(std::string_view text) const = 0;
};

struct PreTokenizerRules;

// Byte-level byte-pair encoding (tokenizer.ggml.model = "gpt2"): the pre-tokenizer splits words,
// which are merged from single bytes. Bytes missing from the vocabulary are dropped.
//
// Requires  `vocabulary` outlives the encoder
// Errors    bad_file: merges of unknown entries
Result<std::unique_ptr<TextEncoder>> make_byte_bpe_encoder(const GgufFile& file,
                                                           const PreTokenizerRules& rules,
                                                           const Vocabulary& vocabulary);

// Byte-pair encoding over pieces in SentencePiece's spelling (tokenizer.ggml.model = "gemma4"). It
// starts from characters, or the entries <0x0A> of their bytes if the vocabulary lacks one. A run
// of line ends that is an entry is not merged. Bytes missing from the vocabulary are dropped.
//
// Requires  as above
// Errors    as above
Result<std::unique_ptr<TextEncoder>> make_plain_bpe_encoder(const GgufFile& file,
                                                            const PreTokenizerRules& rules,
                                                            const Vocabulary& vocabulary);

// SentencePiece's own library on the pieces of a GGUF file. Invalid UTF-8 is read as U+FFFD. Puts a
// space before each text under SpaceRule::each; the caller applies the other rules.
//
// Errors    bad_file
Result<std::unique_ptr<TextEncoder>> make_sentencepiece_encoder(
    const GgufFile& file, SentencePieceModel::Algorithm algorithm, const Vocabulary& vocabulary);

}  // namespace edgedraft
