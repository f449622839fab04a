#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/config.h"
#include "shared/model/families/family.h"
#include "shared/model/gguf_writer.h"

namespace edgedraft {

class SafetensorsModel;

// Contents of config.json. Its keys are translated to GGUF's, which give the plan.
struct HfConfig {
  const Family* family = nullptr;
  GgufMetadata metadata;  // keys of the architecture
  DecoderConfig decoder;
  std::vector<std::pair<std::string, std::vector<float>>> vectors;  // tensors of the file
  bool tied_embeddings = false;
  bool has_images = false;  // the checkpoint has parts that see images
  std::optional<std::uint32_t> bos_id;
  std::vector<std::uint32_t> eos_ids;
};

// `checkpoint`, which may be null, decides what a configuration leaves open.
// Errors    io, bad_file, unsupported: naming the file and key
Result<HfConfig> read_hf_config(const std::filesystem::path& directory,
                                const SafetensorsModel* checkpoint);

}  // namespace edgedraft
