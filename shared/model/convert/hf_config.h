#pragma once

#include <cstdint>
#include <filesystem>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/config.h"
#include "shared/model/families/family.h"
#include "shared/model/families/hf_keys.h"

namespace edgedraft {

class SafetensorsModel;

// Contents of config.json. Its keys are translated to GGUF's, which give the plan.
struct HfConfig : HfValues {
  const Family* family = nullptr;
  DecoderConfig decoder;
  bool tied_embeddings = false;
  bool has_images = false;  // the checkpoint has parts that see images
  std::optional<std::uint32_t> bos_id;
  std::vector<std::uint32_t> eos_ids;
};

// The configuration without generation_config.json.
// Errors    as below, without the file's name
Result<HfConfig> parse_hf_config(const nlohmann::json& file, const SafetensorsModel* checkpoint);

// `checkpoint`, which may be null, decides what a configuration leaves open.
// Errors    io, bad_file, unsupported: naming the file and key
Result<HfConfig> read_hf_config(const std::filesystem::path& directory,
                                const SafetensorsModel* checkpoint);

}  // namespace edgedraft
