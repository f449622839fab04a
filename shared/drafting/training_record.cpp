#include "shared/drafting/training_record.h"

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "shared/drafting/bundle_parts.h"
#include "shared/model/json_file.h"

namespace edgedraft {
namespace {

constexpr const char* kConfigKey = "edgedraft_training";
constexpr std::string_view kSteps = "edgedraft.training.steps";
constexpr std::string_view kMillionTokens = "edgedraft.training.million_tokens";
constexpr std::string_view kMinutes = "edgedraft.training.minutes";
constexpr std::string_view kDrafters = "edgedraft.training.drafters";

Error wrong(std::string_view key) {
  return {Errc::bad_file, std::string(key) + " is not an amount of training"};
}

bool is_amount(double value) {
  return std::isfinite(value) && value >= 0.0;
}

}  // namespace

Result<std::optional<TrainingRecord>> read_training_config(const std::filesystem::path& drafter) {
  const auto config = read_drafter_config(drafter);
  if (!config) return config.error();
  const auto found = config->find(kConfigKey);
  if (found == config->end() || found->is_null()) return std::optional<TrainingRecord>();
  if (!found->is_object()) return wrong(kConfigKey);
  const auto steps = json_u32(*found, "steps");
  if (!steps) return steps.error();
  const auto tokens = json_number(*found, "tokens");
  if (!tokens) return tokens.error();
  const auto minutes = json_number(*found, "minutes");
  if (!minutes) return minutes.error();
  const auto drafters = json_u32(*found, "drafters");
  if (!drafters) return drafters.error();
  if (!is_amount(tokens->value_or(0.0))) return wrong("tokens");
  if (!is_amount(minutes->value_or(0.0))) return wrong("minutes");
  return std::optional(
      TrainingRecord{.steps = steps->value_or(0),
                     .million_tokens = static_cast<float>(tokens->value_or(0.0) / 1e6),
                     .minutes = static_cast<float>(minutes->value_or(0.0)),
                     .drafters = drafters->value_or(1)});
}

void set_training(const TrainingRecord& record, GgufMetadata& metadata) {
  metadata.set_u32(std::string(kSteps), record.steps);
  metadata.set_f32(std::string(kMillionTokens), record.million_tokens);
  metadata.set_f32(std::string(kMinutes), record.minutes);
  metadata.set_u32(std::string(kDrafters), record.drafters);
}

Result<std::optional<TrainingRecord>> read_training(const GgufFile& bundle) {
  if (bundle.find_value(kSteps) == nullptr) return std::optional<TrainingRecord>();
  const auto steps = bundle.get_u32(kSteps);
  if (!steps) return steps.error();
  const auto tokens = bundle.get_f32(kMillionTokens);
  if (!tokens) return tokens.error();
  const auto minutes = bundle.get_f32(kMinutes);
  if (!minutes) return minutes.error();
  const auto drafters = bundle.get_u32(kDrafters);
  if (!drafters) return drafters.error();
  if (!is_amount(*tokens)) return wrong(kMillionTokens);
  if (!is_amount(*minutes)) return wrong(kMinutes);
  return std::optional(TrainingRecord{
      .steps = *steps, .million_tokens = *tokens, .minutes = *minutes, .drafters = *drafters});
}

}  // namespace edgedraft
