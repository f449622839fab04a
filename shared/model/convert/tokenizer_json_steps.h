#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/convert/tokenizer_parts.h"
#include "shared/model/tokenizer/space_rule.h"

namespace edgedraft {

// "tokenizer.json: WHAT", as bad_file.
Error bad_tokenizer(const std::string& what);
// "tokenizer.json: WHAT is not supported", as unsupported.
Error unsupported_tokenizer(const std::string& what);

// Text preparation of a tokenizer.json, before its model.
struct TextSteps {
  bool byte_level = false;
  // For byte-level BPE:
  std::vector<std::string> patterns;  // in our regex dialect (Pattern)
  bool nfc = false;
  // For SentencePiece's pieces:
  SpaceRule space_rule = SpaceRule::none;
  bool splits_at_spaces = false;
  bool is_gemma = false;  // a Split at spaces, all of which were replaced before
};

// Steps of splitting for byte-level BPE.
enum class Splits : std::uint8_t { read, ignore };

// Reads `normalizer` and `pre_tokenizer`.
// Errors    bad_file; unsupported: names the step
Result<TextSteps> read_text_steps(const nlohmann::json& file, Splits splits = Splits::read);

// Reads `post_processor` into add_bos, add_eos and bos.
Result<void> read_post_processor(const nlohmann::json& file, TokenizerParts& parts);

}  // namespace edgedraft
