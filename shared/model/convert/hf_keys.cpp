#include "shared/model/convert/hf_keys.h"

#include <cmath>
#include <utility>

#include "shared/model/json_file.h"

namespace edgedraft {
namespace {

using nlohmann::json;

Error bad_key(const char* key, std::string_view what) {
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

HfKeys::HfKeys(const json& config, std::string_view architecture, GgufMetadata& out)
    : config_(config), prefix_(std::string(architecture) + "."), out_(out) {}

void HfKeys::fail(Error error) {
  if (!error_) error_ = std::move(error);
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

const json& HfKeys::scaling() const {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (const json* object = object_at(config_, key)) return *object;
  }
  static const json none = json::object();
  return none;
}

std::string HfKeys::rope_type() {
  const auto type = json_string(scaling(), scaling().contains("rope_type") ? "rope_type" : "type");
  if (!type) fail(type.error());
  return type ? type->value_or("default") : "default";
}

double HfKeys::rope_number_or(const char* from, double fallback) {
  for (const char* key : {"rope_parameters", "rope_scaling"}) {
    const json* const object = object_at(config_, key);
    if (object == nullptr) continue;
    const auto value = json_number(*object, from);
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

void HfKeys::refuse_in_rope(const char* from) {
  const auto found = scaling().find(from);
  if (found == scaling().end() || found->is_null()) return;
  fail({Errc::unsupported, "\"" + std::string(from) + "\" of the rotary scaling is not supported"});
}

void HfKeys::set_count(std::string_view to, std::uint32_t value) {
  if (to == "rope.dimension_count") rotated_ = value;
  out_.set_u32(full(to), value);
}

void HfKeys::set_number(std::string_view to, double value) {
  out_.set_f32(full(to), static_cast<float>(value));
}

void HfKeys::set_text(std::string_view to, std::string_view value) {
  out_.set_string(full(to), value);
}

}  // namespace edgedraft
