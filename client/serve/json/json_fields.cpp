#include "client/serve/json/json_fields.h"

#include <sstream>
#include <utility>

namespace edgedraft::client {
namespace {

template <class Number>
std::string range_of(const char* kind, Number min, Number max) {
  std::ostringstream text;
  text << kind << " from " << min << " to " << max;
  return text.str();
}

}  // namespace

std::string kind_of(const nlohmann::json& value) {
  switch (value.type()) {
    case nlohmann::json::value_t::null:
      return "null";
    case nlohmann::json::value_t::object:
      return "an object";
    case nlohmann::json::value_t::array:
      return "an array";
    case nlohmann::json::value_t::string:
      return "a string";
    case nlohmann::json::value_t::boolean:
      return "true or false";
    default:
      return value.dump();
  }
}

std::optional<ApiError> parse_object(std::string_view body, nlohmann::json& object) {
  object = nlohmann::json::parse(body, nullptr, /*allow_exceptions=*/false);
  if (object.is_object()) return std::nullopt;
  const std::string what = object.is_discarded()
                               ? "not valid JSON: check for a missing quote or comma"
                               : kind_of(object) + "; expected an object";
  return ApiError{.message = "the body is " + what, .code = "invalid_json"};
}

JsonFields::JsonFields(const nlohmann::json& object, std::string path)
    : object_(object), path_(std::move(path)) {}

const nlohmann::json* JsonFields::find(std::string_view name) const {
  const auto found = object_.find(name);
  return found == object_.end() || found->is_null() ? nullptr : &*found;
}

void JsonFields::read(std::string_view name, bool& value) {
  const nlohmann::json* const field = find(name);
  if (field == nullptr) return;
  if (!field->is_boolean()) return refuse(name, "true or false");
  value = field->get<bool>();
}

void JsonFields::read(std::string_view name, std::string& value) {
  const nlohmann::json* const field = find(name);
  if (field == nullptr) return;
  if (!field->is_string()) return refuse(name, "a string");
  value = field->get<std::string>();
}

void JsonFields::read(std::string_view name, double& value, double min, double max) {
  const nlohmann::json* const field = find(name);
  if (field == nullptr) return;
  const double number = field->is_number() ? field->get<double>() : max;
  if (!field->is_number() || !(number >= min && number <= max)) {
    return refuse(name, range_of("a number", min, max));
  }
  value = number;
}

void JsonFields::read(std::string_view name, std::int64_t& value, std::int64_t min,
                      std::int64_t max) {
  const nlohmann::json* const field = find(name);
  if (field == nullptr) return;
  const bool fits = field->is_number_unsigned()
                        ? field->get<std::uint64_t>() <= static_cast<std::uint64_t>(max)
                        : field->is_number_integer() && field->get<std::int64_t>() <= max;
  if (!fits || field->get<std::int64_t>() < min) {
    return refuse(name, range_of("an integer", min, max));
  }
  value = field->get<std::int64_t>();
}

std::optional<std::string> JsonFields::word(std::string_view name,
                                            std::initializer_list<const char*> words) {
  const nlohmann::json* const field = find(name);
  if (field == nullptr) return std::nullopt;
  std::string list;
  for (const char* const word : words) {
    if (field->is_string() && field->get_ref<const std::string&>() == word) return word;
    list += (list.empty() ? "'" : ", '") + std::string(word) + '\'';
  }
  refuse(name, "one of " + list);
  return std::nullopt;
}

void JsonFields::refuse(std::string_view name, const std::string& what) {
  if (error_) return;
  const nlohmann::json* const field = find(name);
  const std::string got = field == nullptr     ? "is missing"
                          : field->is_string() ? "is '" + field->get<std::string>() + '\''
                                               : "is " + kind_of(*field);
  error_ = {.status = 400,
            .message = "'" + path_of(name) + "' " + got + "; expected " + what,
            .param = path_of(name),
            .code = field == nullptr ? "missing_required_parameter" : "invalid_value"};
}

void JsonFields::refuse_unsupported(std::string_view name, const std::string& what) {
  if (error_) return;
  error_ = {.status = 400,
            .message = "'" + path_of(name) + "': " + what,
            .param = path_of(name),
            .code = "unsupported_value"};
}

void JsonFields::take(const std::optional<ApiError>& error) {
  if (!error_) error_ = error;
}

}  // namespace edgedraft::client
