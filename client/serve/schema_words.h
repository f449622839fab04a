#pragma once

#include <cstdint>
#include <nlohmann/json.hpp>
#include <set>
#include <span>
#include <string_view>

// The words of JSON Schema, and what a single schema says with them.
namespace edgedraft::schema {

using Schema = nlohmann::ordered_json;

inline constexpr std::uint32_t kRepeatsMax = 1024;  // of one bound

// A word that restricts values of one type, or of any (an empty type).
struct Word {
  std::string_view name;
  std::string_view type;
  bool is_followed;
};
std::span<const Word> words();

inline constexpr std::string_view kTypes[] = {"object",  "array",   "string", "number",
                                              "integer", "boolean", "null"};
inline constexpr const char* kChoices[] = {"anyOf", "oneOf"};

// The pattern of a format that is followed; empty for others.
std::string_view pattern_of_format(std::string_view format);

// Returns null if the schema lacks the word.
const Schema* find(const Schema& schema, std::string_view word);
bool is_true(const Schema& schema);
bool is_of_type(const Schema& value, std::string_view type);
// Whether it restricts values by itself, beside $ref, allOf and lists of which a schema is chosen.
bool restricts(const Schema& schema, const std::set<const Schema*>& chosen);
// Whether a word that is not followed restricts nothing here, by its value or because texts of the
// schema have only the properties and items that it names. Requires  the schema has the word
bool restricts_nothing(std::string_view word, const Schema& schema);

}  // namespace edgedraft::schema
