#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/config.h"
#include "shared/model/families/family.h"
#include "shared/model/gguf_writer.h"

namespace edgedraft {

// Contents of config.json. Its keys are translated to GGUF's, which give the plan.
struct HfConfig {
  const Family* family = nullptr;
  GgufMetadata metadata;  // keys of the architecture
  DecoderConfig decoder;
  std::vector<float> stored_divisors;  // rope_freqs.weight; empty: none
  bool tied_embeddings = false;
  std::optional<std::uint32_t> bos_id;
  std::vector<std::uint32_t> eos_ids;
};

// Errors    io, bad_file, unsupported: naming the file and key
Result<HfConfig> read_hf_config(const std::filesystem::path& directory);

}  // namespace edgedraft
