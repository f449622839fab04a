#pragma once

#include <filesystem>
#include <optional>
#include <string>

#include "shared/base/error.h"
#include "shared/model/convert/hf_config.h"
#include "shared/model/gguf_writer.h"

namespace edgedraft {

// Adds the tokenizer (tokenizer.model with added_tokens.json, or else tokenizer.json) and chat
// template of a Hugging Face directory, under llama.cpp's keys, kSpaceRuleKey and kEndIdsKey. Does
// nothing if there is none. `pre` names the rules of a byte-level tokenizer.json, whose own steps
// of splitting are then ignored.
//
// Returns   a notice for the user, usually empty
// Errors    io, bad_file, mismatch; unsupported: names the feature that GGUF cannot express
Result<std::string> add_hf_tokenizer(const std::filesystem::path& directory, const HfConfig& config,
                                     const std::optional<std::string>& pre, GgufMetadata& metadata);

}  // namespace edgedraft
