#pragma once

#include <filesystem>
#include <string>

#include "shared/base/error.h"
#include "shared/model/convert/hf_config.h"
#include "shared/model/gguf_writer.h"

namespace edgedraft {

// Adds the tokenizer (tokenizer.model with added_tokens.json, or else tokenizer.json) and chat
// template of a Hugging Face directory, under llama.cpp's keys, kSpaceRuleKey and kEndIdsKey. Does
// nothing if there is none.
//
// Returns   a notice for the user, usually empty
// Errors    io, bad_file, mismatch; unsupported: names the feature that GGUF cannot express
Result<std::string> add_hf_tokenizer(const std::filesystem::path& directory, const HfConfig& config,
                                     GgufMetadata& metadata);

}  // namespace edgedraft
