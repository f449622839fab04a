#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

#include "shared/base/error.h"
#include "shared/model/gguf.h"
#include "shared/model/gguf_writer.h"

namespace edgedraft {

// What a drafter's training took. Nothing is computed from it; comparisons print it.
struct TrainingRecord {
  std::uint32_t steps = 0;
  float million_tokens = 0.0f;  // padded ones, repetitions included
  float minutes = 0.0f;         // for all drafters of the run
  std::uint32_t drafters = 1;   // that were trained side by side in these minutes
};

// "edgedraft_training" in the config.json of a checkpoint's folder; nothing where it is missing.
// Errors    io; bad_file naming the key
Result<std::optional<TrainingRecord>> read_training_config(const std::filesystem::path& drafter);

void set_training(const TrainingRecord& record, GgufMetadata& metadata);
// Nothing of a bundle that does not say. Errors    bad_file naming the key
Result<std::optional<TrainingRecord>> read_training(const GgufFile& bundle);

}  // namespace edgedraft
