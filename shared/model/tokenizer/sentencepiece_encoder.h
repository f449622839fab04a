#pragma once

#include <memory>

#include "shared/base/error.h"
#include "shared/model/gguf.h"
#include "shared/model/sentencepiece_proto.h"
#include "shared/model/tokenizer/text_encoder.h"
#include "shared/model/tokenizer/vocabulary.h"

namespace edgedraft {

// SentencePiece's own library on the pieces of a GGUF file. Invalid UTF-8 is read as U+FFFD. Puts a
// space before each text under SpaceRule::each; the caller applies the other rules.
//
// Errors    bad_file
Result<std::unique_ptr<TextEncoder>> make_sentencepiece_encoder(
    const GgufFile& file, SentencePieceModel::Algorithm algorithm, const Vocabulary& vocabulary);

}  // namespace edgedraft
