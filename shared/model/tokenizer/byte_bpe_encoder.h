#pragma once

#include <memory>

#include "shared/base/error.h"
#include "shared/model/gguf.h"
#include "shared/model/tokenizer/text_encoder.h"
#include "shared/model/tokenizer/vocabulary.h"

namespace edgedraft {

struct PreTokenizerRules;

// Byte-level byte-pair encoding (tokenizer.ggml.model = "gpt2"): words cut by the pre-tokenizer,
// then merged from single bytes. A byte that the vocabulary does not have is left out.
//
// Requires  `vocabulary` outlives the encoder
// Errors    bad_file: merges of what is no entry
Result<std::unique_ptr<TextEncoder>> make_byte_bpe_encoder(const GgufFile& file,
                                                           const PreTokenizerRules& rules,
                                                           const Vocabulary& vocabulary);

}  // namespace edgedraft
