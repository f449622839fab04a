#include "shared/model/chat_template/json_value.h"

#include <algorithm>
#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "shared/base/json_shape.h"
#include "shared/model/chat_template.h"

namespace edgedraft::chat {
namespace {

using Json = nlohmann::ordered_json;

Value number_value(const Json& number) {
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  const bool fits = number.is_number_integer() &&
                    (!number.is_number_unsigned() || number.get<std::uint64_t>() <= kMax);
  if (fits) return {number.get<std::int64_t>()};
  return {number.get<double>()};
}

// Nullopt if nested too deeply.
std::optional<Value> value_of(const Json& json, std::size_t depth_left) {
  if (json.is_string()) return Value::marked(MarkedText::foreign(json.get<std::string>()));
  if (json.is_boolean()) return Value{json.get<bool>()};
  if (json.is_number()) return number_value(json);
  if (json.is_null()) return Value{None{}};
  if (depth_left == 0) return std::nullopt;
  if (json.is_array()) {
    std::vector<Value> items;
    for (const Json& item : json) {
      auto value = value_of(item, depth_left - 1);
      if (!value) return std::nullopt;
      items.push_back(*std::move(value));
    }
    return Value::list(std::move(items));
  }
  Map map;
  for (const auto& [name, item] : json.items()) {
    auto value = value_of(item, depth_left - 1);
    if (!value) return std::nullopt;
    // The reader has merged entries of the same name.
    map.depth = std::max(map.depth, value->depth() + 1);
    map.entries.emplace_back(Value::marked(MarkedText::foreign(name)), *std::move(value));
  }
  return Value::map(std::move(map));
}

}  // namespace

Result<Value> json_value(std::string_view json, std::string_view what) {
  if (!has_readable_shape(json)) {
    return Error{Errc::usage, std::string(what) + " nest too deeply, or have too many members"};
  }
  const Json parsed = Json::parse(json, nullptr, /*allow_exceptions=*/false);
  if (parsed.is_discarded()) return Error{Errc::usage, std::string(what) + " are not valid JSON"};
  // Values of the template that contain it add levels.
  auto value = value_of(parsed, kTemplateDepthMax / 2);
  if (value) return *std::move(value);
  return Error{Errc::usage, std::string(what) + " nest too deeply"};
}

}  // namespace edgedraft::chat
