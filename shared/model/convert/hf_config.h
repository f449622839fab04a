#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/config.h"

namespace edgedraft {

// Contents of config.json for a Llama or Qwen2 model. The style is halves, as in Hugging Face.
struct HfConfig {
  DecoderConfig decoder;
  // Kind of `decoder.rope.frequency_divisors`: linear has one factor for all.
  std::optional<float> linear_factor;
  bool tied_embeddings = false;
  std::optional<std::uint32_t> bos_id;
  std::vector<std::uint32_t> eos_ids;
};

// Errors    io, bad_file, unsupported: naming the file and key
Result<HfConfig> read_hf_config(const std::filesystem::path& directory);

}  // namespace edgedraft
