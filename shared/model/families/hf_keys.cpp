#include "shared/model/families/hf_keys.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <utility>

#include "shared/model/json_file.h"
#include "shared/model/safetensors.h"

namespace edgedraft {
namespace {

using nlohmann::json;

Error bad_key(std::string_view key, std::string_view what) {
  std::string message(1, '"');
  message.append(key).append("\" is ").append(what);
  return bad_file(std::move(message));
}

// A member that is an object with members; null for another.
const json* object_at(const json& config, const char* key) {
  const auto found = config.find(key);
  return found != config.end() && found->is_object() && !found->empty() ? &*found : nullptr;
}

}  // namespace

HfKeys::HfKeys(const json& config, const SafetensorsModel* checkpoint,
               std::string_view architecture, HfValues& out)
    : config_(config),
      checkpoint_(checkpoint),
      prefix_(std::string(architecture) + "."),
      out_(out) {}

void HfKeys::fail(Error error) {
  if (!error_) error_ = std::move(error);
}

void HfKeys::refuse(const char* from, std::string_view why) {
  fail({Errc::unsupported, bad_key(from, why).message});
}

bool HfKeys::has(const char* from) const {
  const auto found = config_.find(from);
  return found != config_.end() && !found->is_null();
}

bool HfKeys::has_tensor(const std::string& name) const {
  return checkpoint_ != nullptr && checkpoint_->find(name) != nullptr;
}

std::uint32_t HfKeys::count(const char* from, std::string_view to) {
  const auto value = json_u32(config_, from);
  if (!value) {
    fail(value.error());
  } else if (!*value) {
    fail(bad_key(from, "missing"));
  }
  return count_or(from, to, 1);
}

std::uint32_t HfKeys::count_or(const char* from, std::string_view to, std::uint32_t fallback) {
  const auto value = json_u32(config_, from);
  if (!value) fail(value.error());
  const std::uint32_t count = value ? value->value_or(fallback) : fallback;
  if (count == 0) fail(bad_key(from, "zero"));
  set_count(to, count);
  return count;
}

std::uint32_t HfKeys::size(const char* from) {
  const auto value = json_u32(config_, from);
  if (!value) fail(value.error());
  return value ? value->value_or(0) : 0;
}

bool HfKeys::flag_or(const char* from, bool fallback) {
  const auto value = json_bool(config_, from);
  if (!value) fail(value.error());
  return value ? value->value_or(fallback) : fallback;
}

double HfKeys::number_or(const char* from, double fallback) {
  const auto value = json_number(config_, from);
  if (!value) fail(value.error());
  return value ? value->value_or(fallback) : fallback;
}

std::string HfKeys::text_or(const char* from, std::string_view fallback) {
  const auto value = json_string(config_, from);
  if (!value) fail(value.error());
  return value && *value ? **value : std::string(fallback);
}

std::vector<std::string> HfKeys::layer_texts(const char* from) {
  if (!has(from)) return {};
  const json& list = config_[from];
  const std::uint32_t layers = size("num_hidden_layers");
  const bool is_text = list.is_array() && std::ranges::all_of(list, &json::is_string);
  if (!is_text || list.size() != layers) {
    fail(bad_key(from, "not a list of " + std::to_string(layers) + " texts, one per layer"));
    return {};
  }
  return list.get<std::vector<std::string>>();
}

std::vector<std::uint32_t> HfKeys::layer_numbers(const char* from) {
  if (!has(from)) return {};
  std::vector<std::uint32_t> numbers;
  for (const json& value : config_[from]) {
    const auto number = json_u32(json{{from, value}}, from);
    if (number && *number) numbers.push_back(**number);
  }
  const std::uint32_t layers = size("num_hidden_layers");
  if (!config_[from].is_array() || config_[from].size() != layers || numbers.size() != layers) {
    fail(bad_key(from, "not a list of " + std::to_string(layers) + " numbers, one per layer"));
    return {};
  }
  return numbers;
}

std::uint32_t HfKeys::full_attention_period(std::uint32_t fallback) {
  const auto types = layer_texts("layer_types");
  if (types.empty()) return fallback;
  const auto is_full = [](const std::string& type) { return type == "full_attention"; };
  const auto first = std::ranges::find_if(types, is_full);
  const auto period = static_cast<std::uint32_t>(first - types.begin()) + 1;
  // Any period above the number of layers says that none has it.
  if (first == types.end()) return std::max(period, fallback);
  for (std::size_t i = 0; i < types.size(); ++i) {
    if (is_full(types[i]) == ((i + 1) % period == 0)) continue;
    refuse("layer_types", "irregular: layers with full attention must be evenly spaced");
    break;
  }
  return period;
}

void HfKeys::require_flag(const char* from, bool wanted, bool fallback) {
  if (flag_or(from, fallback) == wanted) return;
  refuse(from, wanted ? "not true, which is not supported" : "true, which is not supported");
}

// The parameters of layers with full attention, if others have their own.
const json& HfKeys::rope(const char* key) const {
  static const json none = json::object();
  const json* const object = object_at(config_, key);
  if (object == nullptr) return none;
  const json* const full = object_at(*object, "full_attention");
  return full == nullptr ? *object : *full;
}

const json& HfKeys::scaling() const {
  const json& old = rope("rope_scaling");
  return old.empty() ? rope("rope_parameters") : old;
}

std::string HfKeys::rope_type() {
  const auto type = json_string(scaling(), scaling().contains("rope_type") ? "rope_type" : "type");
  if (!type) fail(type.error());
  return type ? type->value_or("default") : "default";
}

double HfKeys::rope_number_or(const char* from, double fallback) {
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const auto value = json_number(rope(key), from);
    if (!value) fail(value.error());
    if (value && *value) return **value;
  }
  return number_or(from, fallback);
}

double HfKeys::positive_in_rope(const char* from) {
  const auto value = json_number(scaling(), from);
  if (!value) {
    fail(value.error());
  } else if (!*value || !(**value > 0.0 && std::isfinite(static_cast<float>(**value)))) {
    fail(bad_key(from, "missing in the rotary scaling, or not a finite positive 32-bit number"));
  } else {
    return **value;
  }
  return 1.0;
}

std::vector<float> HfKeys::divisors_in_rope(const char* from) {
  const std::uint32_t count = rotated_ / 2;
  const auto found = scaling().find(from);
  std::vector<float> divisors;
  if (found != scaling().end() && found->is_array() && found->size() == count) {
    for (const json& value : *found) {
      const double number = value.is_number() ? value.get<double>() : 0.0;
      if (number > 0.0 && std::isfinite(static_cast<float>(number))) {
        divisors.push_back(static_cast<float>(number));
      }
    }
  }
  if (divisors.size() != count) {
    fail(bad_key(from, "not a list of " + std::to_string(count) +
                           " finite positive numbers in the rotary scaling"));
    divisors.assign(count, 1.0f);
  }
  return divisors;
}

bool HfKeys::has_in_rope(const char* from) {
  const auto found = scaling().find(from);
  return found != scaling().end() && !found->is_null();
}

void HfKeys::require_in_rope(const char* from, double wanted) {
  if (has_in_rope(from) && positive_in_rope(from) != wanted) refuse_in_rope(from);
}

void HfKeys::refuse_in_rope(const char* from) {
  if (!has_in_rope(from)) return;
  fail({Errc::unsupported, "\"" + std::string(from) + "\" of the rotary scaling is not supported"});
}

double HfKeys::window_theta_or(double fallback) {
  const json* const object = object_at(config_, "rope_parameters");
  const json* const own = object == nullptr ? nullptr : object_at(*object, "sliding_attention");
  if (own == nullptr) return fallback;
  const auto value = json_number(*own, "rope_theta");
  if (!value) fail(value.error());
  return value ? value->value_or(fallback) : fallback;
}

std::vector<std::int32_t> HfKeys::rope_sections() {
  constexpr const char* kKey = "mrope_section";
  constexpr std::size_t kSections = 3;  // of time, height and width
  if (!has_in_rope(kKey)) return {};
  const json& list = scaling()[kKey];
  std::vector<std::int32_t> sections;
  for (const json& value : list) {
    const auto count = json_u32(json{{kKey, value}}, kKey);
    if (count && *count && **count <= rotated_) {
      sections.push_back(static_cast<std::int32_t>(**count));
    }
  }
  if (!list.is_array() || list.size() != kSections || sections.size() != kSections) {
    fail(bad_key(kKey, "not a list of three numbers of rotated pairs"));
  }
  return sections;
}

void HfKeys::set_count(std::string_view to, std::uint32_t value) {
  if (to == "rope.dimension_count") rotated_ = value;
  out_.metadata.set_u32(full(to), value);
}

void HfKeys::set_counts(std::string_view to, const std::vector<std::int32_t>& values) {
  out_.metadata.set_i32s(full(to), values);
}

void HfKeys::set_flags(std::string_view to, const std::vector<bool>& values) {
  out_.metadata.set_bools(full(to), values);
}

void HfKeys::set_number(std::string_view to, double value) {
  out_.metadata.set_f32(full(to), static_cast<float>(value));
}

void HfKeys::set_text(std::string_view to, std::string_view value) {
  out_.metadata.set_string(full(to), value);
}

void HfKeys::set_vector(std::string_view tensor, std::vector<float> values) {
  out_.vectors.emplace_back(tensor, std::move(values));
}

}  // namespace edgedraft
