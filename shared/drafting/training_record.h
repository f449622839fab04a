#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "shared/base/error.h"
#include "shared/model/gguf.h"
#include "shared/model/gguf_writer.h"

namespace edgedraft {

// Cost of a drafter's training, for display in comparisons only.
struct TrainingRecord {
  std::uint32_t steps = 0;
  float million_tokens = 0.0f;  // with padding and repetitions
  float minutes = 0.0f;         // for all drafters of the run
  std::uint32_t drafters = 1;   // trained together in these minutes
};

// "edgedraft_training" in the config.json of a checkpoint's folder; nullopt if missing.
// Errors    io; bad_file naming the key
Result<std::optional<TrainingRecord>> read_training_config(const std::filesystem::path& drafter);

void set_training(const TrainingRecord& record, GgufMetadata& metadata);
// Record in a bundle; nullopt if missing. Errors    bad_file naming the key
Result<std::optional<TrainingRecord>> read_training(const GgufFile& bundle);

}  // namespace edgedraft
