#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string_view>

// Keywords of JSON Schema, and their meaning in a single schema.
namespace edgedraft::schema {

using Schema = nlohmann::ordered_json;

inline constexpr std::uint32_t kRepeatsMax = 1024;  // limit per bound

// A keyword that restricts values of one type, or of any (empty type).
struct Word {
  std::string_view name;
  std::string_view type;
  bool is_followed;
};
std::span<const Word> words();

inline constexpr std::string_view kTypes[] = {"object",  "array",   "string", "number",
                                              "integer", "boolean", "null"};
inline constexpr const char* kChoices[] = {"anyOf", "oneOf"};

// Returns the pattern of a supported format; empty for others.
std::string_view pattern_of_format(std::string_view format);

// Returns null if the schema lacks the keyword.
const Schema* find(const Schema& schema, std::string_view word);
bool is_true(const Schema& schema);
bool is_of_type(const Schema& value, std::string_view type);
// True if it restricts values itself, apart from $ref, allOf and lists with a chosen schema.
bool restricts(const Schema& schema, const std::set<const Schema*>& chosen);
// True if an unsupported keyword restricts nothing here. Either its value allows everything, or the
// schema's texts have only the properties and items that it names. Requires  the schema has the
// keyword
bool restricts_nothing(std::string_view word, const Schema& schema);

}  // namespace edgedraft::schema
