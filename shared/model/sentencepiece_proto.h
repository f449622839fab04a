#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/error.h"
#include "shared/model/tokenizer.h"

namespace edgedraft {

// The part of a tokenizer.model file that we use.
//
// Source    sentencepiece_model.proto of the SentencePiece project
struct SentencePieceModel {
  struct Piece {
    std::string text;
    float score = 0.0f;
    TokenType type = TokenType::normal;
  };
  enum class Algorithm : std::uint8_t { unigram = 1, bpe = 2, word = 3, character = 4 };

  std::vector<Piece> pieces;
  Algorithm algorithm = Algorithm::unigram;
  bool byte_fallback = false;
  bool add_dummy_prefix = true;
  bool remove_extra_whitespaces = true;
  bool changes_text = false;  // has a normalisation rule; not encoded
  std::int32_t unk_id = 0;
  std::int32_t bos_id = 1;  // -1: none
  std::int32_t eos_id = 2;
};

// In the format of tokenizer.model, for libsentencepiece.
std::string encode_sentencepiece_model(const SentencePieceModel& model);

// Errors    bad_file: truncated or damaged
Result<SentencePieceModel> decode_sentencepiece_model(ByteView bytes);

}  // namespace edgedraft
