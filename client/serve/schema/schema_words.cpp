#include "client/serve/schema/schema_words.h"

#include <algorithm>
#include <cmath>
#include <utility>

namespace edgedraft::schema {
namespace {

constexpr Word kWords[] = {
    {"properties", "object", true},
    {"required", "object", true},
    {"additionalProperties", "object", true},
    {"propertyNames", "object", true},
    {"patternProperties", "object", false},
    {"minProperties", "object", false},
    {"maxProperties", "object", false},
    {"dependentRequired", "object", false},
    {"dependentSchemas", "object", false},
    {"dependencies", "object", false},
    {"unevaluatedProperties", "object", false},
    {"items", "array", true},
    {"prefixItems", "array", true},
    {"minItems", "array", true},
    {"maxItems", "array", true},
    {"uniqueItems", "array", false},
    {"contains", "array", false},
    {"unevaluatedItems", "array", false},
    {"minLength", "string", true},
    {"maxLength", "string", true},
    {"pattern", "string", true},
    {"minimum", "number", false},  // enforced for integers, as the next three
    {"maximum", "number", false},
    {"exclusiveMinimum", "number", false},
    {"exclusiveMaximum", "number", false},
    {"multipleOf", "number", false},
    {"not", "", false},
    {"if", "", false},
    {"$dynamicRef", "", false},
    {"$recursiveRef", "", false},
};

constexpr std::pair<std::string_view, std::string_view> kFormats[] = {
    {"date", R"(^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$)"},
    {"time", R"(^([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?([zZ]|[+-]([01]\d|2[0-3]):[0-5]\d)$)"},
    {"date-time",
     R"(^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[tT]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?([zZ]|[+-]([01]\d|2[0-3]):[0-5]\d)$)"},
    {"uuid", R"(^[\da-fA-F]{8}-([\da-fA-F]{4}-){3}[\da-fA-F]{12}$)"},
    {"ipv4", R"(^(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(\.(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)){3}$)"},
    {"email", R"(^[^\s@]+@[^\s@]+$)"},
};

}  // namespace

std::span<const Word> words() {
  return kWords;
}

std::string_view pattern_of_format(std::string_view format) {
  const auto* const found =
      std::ranges::find(kFormats, format, [](const auto& known) { return known.first; });
  return found == std::end(kFormats) ? std::string_view() : found->second;
}

const Schema* find(const Schema& schema, std::string_view word) {
  const auto found = schema.find(word);
  return found == schema.end() ? nullptr : &*found;
}

bool is_true(const Schema& schema) {
  return schema.is_boolean() && schema.get<bool>();
}

bool is_of_type(const Schema& value, std::string_view type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  return type == "integer" && value.is_number() &&
         (value.is_number_integer() || value.get<double>() == std::trunc(value.get<double>()));
}

bool restricts(const Schema& schema, const std::set<const Schema*>& chosen) {
  for (const char* const word : kChoices) {
    const auto* const list = find(schema, word);
    if (list != nullptr && !chosen.contains(list)) return true;
  }
  for (const char* const word : {"type", "enum", "const", "format"}) {
    if (schema.contains(word)) return true;
  }
  return std::ranges::any_of(kWords, [&](const Word& word) { return schema.contains(word.name); });
}

bool restricts_nothing(std::string_view word, const Schema& schema) {
  const Schema& value = *find(schema, word);
  if (word == "if") return !schema.contains("then") && !schema.contains("else");
  if (word == "minProperties") return value == 0;
  if (word == "propertyNames" && value == true) return true;
  if (word == "unevaluatedProperties" && value == false) return schema.contains("properties");
  if (word == "unevaluatedItems" && value == false) return schema.contains("prefixItems");
  if (word == "uniqueItems" || word == "not") return value == false;
  return value.is_object() && value.empty() && word != "contains";
}

}  // namespace edgedraft::schema
