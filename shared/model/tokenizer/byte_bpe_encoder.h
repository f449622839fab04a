#pragma once

#include <memory>

#include "shared/base/error.h"
#include "shared/model/gguf.h"
#include "shared/model/tokenizer/text_encoder.h"
#include "shared/model/tokenizer/vocabulary.h"

namespace edgedraft {

struct PreTokenizerRules;

// Byte-level byte-pair encoding (tokenizer.ggml.model = "gpt2"): the pre-tokenizer splits words,
// which are merged from single bytes. Bytes missing from the vocabulary are dropped.
//
// Requires  `vocabulary` outlives the encoder
// Errors    bad_file: merges of unknown entries
Result<std::unique_ptr<TextEncoder>> make_byte_bpe_encoder(const GgufFile& file,
                                                           const PreTokenizerRules& rules,
                                                           const Vocabulary& vocabulary);

}  // namespace edgedraft
