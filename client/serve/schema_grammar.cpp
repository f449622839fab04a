#include "client/serve/schema_grammar.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "client/serve/url_query.h"
#include "shared/base/constraints.h"

namespace edgedraft {
namespace {

constexpr std::size_t kDepthMax = 64;
constexpr std::uint32_t kRepeatsMax = 1024;

struct CommonRule {
  std::string_view name;
  std::string_view body;
  std::string_view uses;  // another one
};

// Surrogates are left out: half of a pair is no text.
constexpr CommonRule kCommon[] = {
    {"ws", R"(" "?)", ""},
    {"hex", "[0-9a-fA-F]", ""},
    {"char", R"([^"\\\x00-\x1f\x7f] | "\\" (["\\/bfnrt] | "u" [0-9a-cA-CefEF] hex hex hex))",
     "hex"},
    {"string", R"("\"" char* "\"")", "char"},
    {"integer", R"("-"? ("0" | [1-9] [0-9]{0,15}))", ""},
    {"number", R"(integer ("." [0-9]{1,15})? ([eE] [+\-]? [0-9]{1,2})?)", "integer"},
    {"boolean", R"("true" | "false")", ""},
    {"null", R"("null")", ""},
    {"pair", R"(string ":" ws value)", "value"},
    {"object", R"("{" (pair ("," ws pair)*)? "}")", "pair"},
    {"array", R"("[" (value ("," ws value)*)? "]")", "value"},
    {"value", "object | array | string | number | boolean | null", ""},
};

// Words that restrict what is valid, and that no grammar of ours follows.
constexpr std::string_view kRestricting[] = {"pattern",
                                             "minimum",
                                             "maximum",
                                             "exclusiveMinimum",
                                             "exclusiveMaximum",
                                             "multipleOf",
                                             "uniqueItems",
                                             "not",
                                             "if",
                                             "patternProperties",
                                             "propertyNames",
                                             "minProperties",
                                             "maxProperties",
                                             "dependentRequired",
                                             "contains",
                                             "dependentSchemas",
                                             "unevaluatedItems",
                                             "dependencies",
                                             "$dynamicRef",
                                             "$recursiveRef",
                                             "unevaluatedProperties"};

// Words that restrict values of one type, and are followed there.
constexpr std::pair<std::string_view, std::string_view> kOfOneType[] = {
    {"properties", "object"}, {"required", "object"},   {"additionalProperties", "object"},
    {"items", "array"},       {"prefixItems", "array"}, {"minItems", "array"},
    {"maxItems", "array"},    {"minLength", "string"},  {"maxLength", "string"},
};

// Words that name the values, or schemas for them.
constexpr const char* kChoices[] = {"$ref", "const", "enum", "anyOf", "oneOf", "allOf"};

// Whether the word, one of kRestricting, restricts nothing here: it is `false`, and texts of the
// schema have only the properties and items that it names.
bool restricts_nothing(std::string_view word, const SchemaGrammar::Schema& schema) {
  if (schema[std::string(word)] != false) return false;
  if (word == "unevaluatedProperties") return schema.contains("properties");
  if (word == "unevaluatedItems") return schema.contains("prefixItems");
  return word == "uniqueItems" || word == "not";
}

bool is_of_type(const SchemaGrammar::Schema& value, std::string_view type) {
  if (type == "object") return value.is_object();
  if (type == "array") return value.is_array();
  if (type == "string") return value.is_string();
  if (type == "boolean") return value.is_boolean();
  if (type == "null") return value.is_null();
  if (type == "number") return value.is_number();
  return type == "integer" && value.is_number() &&
         (value.is_number_integer() || value.get<double>() == std::trunc(value.get<double>()));
}

// By `type`, which is a text or an array of them. True where there is none.
bool has_stated_type(const SchemaGrammar::Schema& value, const SchemaGrammar::Schema& schema) {
  const auto type = schema.find("type");
  if (type == schema.end()) return true;
  const auto fits = [&](const SchemaGrammar::Schema& one) {
    return one.is_string() && is_of_type(value, one.get_ref<const std::string&>());
  };
  return type->is_array() ? std::ranges::any_of(*type, fits) : fits(*type);
}

bool is_true(const SchemaGrammar::Schema& schema) {
  return schema.is_boolean() && schema.get<bool>();
}

}  // namespace

std::string SchemaGrammar::literal(std::string_view text) {
  std::string literal = "\"";
  for (const char c : text) {
    if (c == '"' || c == '\\') {
      literal += '\\';
      literal += c;
    } else if (c == '\n') {
      literal += "\\n";
    } else if (static_cast<unsigned char>(c) < 0x20) {
      constexpr std::string_view kDigits = "0123456789abcdef";
      literal += "\\x";
      literal += kDigits[static_cast<unsigned char>(c) >> 4];
      literal += kDigits[static_cast<unsigned char>(c) & 15u];
    } else {
      literal += c;
    }
  }
  return literal + '"';
}

std::string SchemaGrammar::add(const std::string& hint, const std::string& body) {
  if (rules_.size() > kGrammarBytesMax) {
    refuse("the schema is too large");
    return hint;
  }
  const std::string name = hint + '-' + std::to_string(count_++);
  rules_ += name + " ::= " + body + '\n';
  return name;
}

std::string SchemaGrammar::common(const std::string& name) {
  if (std::exchange(common_[name], true)) return name;
  const auto* rule = std::ranges::find(kCommon, name, &CommonRule::name);
  rules_ += name + " ::= " + std::string(rule->body) + '\n';
  if (name == "value") {
    for (const char* part : {"object", "array", "string", "number", "boolean", "null"})
      common(part);
  }
  if (name == "pair" || name == "object" || name == "array") common("ws");
  if (name == "pair") common("string");
  if (!rule->uses.empty()) common(std::string(rule->uses));
  return name;
}

std::string SchemaGrammar::rule_of(const Schema& schema) {
  std::string rule = value(schema, schema, 0);
  std::map<Reference, bool> known_good;
  for (const auto& [reference, beginnings] : beginnings_) {
    if (!begins_with_itself(reference, known_good)) continue;
    refuse("$ref '" + reference.second + "' leads to itself with nothing between");
    break;
  }
  return rule;
}

void SchemaGrammar::refuse(const std::string& what) {
  if (error_) return;
  error_ =
      ApiError{.message = "'" + param_ + "': " + what, .param = param_, .code = "invalid_value"};
}

std::uint32_t SchemaGrammar::bound(const Schema& schema, const char* name,
                                   std::uint32_t otherwise) {
  const auto found = schema.find(name);
  if (found == schema.end()) return otherwise;
  if (!found->is_number_unsigned() || found->get<std::uint64_t>() > kRepeatsMax) {
    refuse(std::string(name) + " has to be a number from 0 to " + std::to_string(kRepeatsMax));
    return otherwise;
  }
  return found->get<std::uint32_t>();
}

std::string SchemaGrammar::value(const Schema& schema, const Schema& root, std::size_t depth) {
  if (depth > kDepthMax) {
    refuse("the schema is nested too deeply");
    return "null";
  }
  if (is_true(schema)) return common("value");
  if (!schema.is_object()) {
    refuse("a schema has to be an object");
    return "null";
  }
  for (const std::string_view word : kRestricting) {
    if (schema.contains(word) && !restricts_nothing(word, schema)) {
      refuse("the word '" + std::string(word) + "' of JSON Schema is not supported");
    }
  }
  for (const char* const word : kChoices) {
    if (schema.contains(word)) return chosen(word, schema, root, depth);
  }
  const auto type = schema.find("type");
  if (type == schema.end()) {
    const auto* of_type = std::ranges::find_if(
        kOfOneType, [&](const auto& word) { return schema.contains(word.first); });
    if (of_type == std::end(kOfOneType)) return common("value");
    return typed(std::string(of_type->second), schema, root, depth);
  }
  if (type->is_string()) return typed(type->get<std::string>(), schema, root, depth);
  if (!type->is_array() || type->empty()) refuse("type has to be a text or an array of them");
  std::string body;
  for (const Schema& one : *type) {
    if (!one.is_string()) refuse("type has to be a text or an array of them");
    if (error_) return "null";
    body += (body.empty() ? "" : " | ") + typed(one.get<std::string>(), schema, root, depth);
  }
  return add("types", body);
}

std::string SchemaGrammar::typed(const std::string& type, const Schema& schema, const Schema& root,
                                 std::size_t depth) {
  if (type == "object" || type == "array") {
    // Its texts begin with a bracket, whatever is in them.
    const auto leading = std::exchange(leading_, std::nullopt);
    std::string rule = type == "object" ? object(schema, root, depth) : array(schema, root, depth);
    leading_ = leading;
    return rule;
  }
  if (type == "string") return text(schema);
  if (type == "integer" || type == "number" || type == "boolean" || type == "null") {
    return common(type);
  }
  refuse("there is no type '" + type + "'");
  return "null";
}

std::string SchemaGrammar::text(const Schema& schema) {
  if (!schema.contains("minLength") && !schema.contains("maxLength")) return common("string");
  const std::uint32_t least = bound(schema, "minLength", 0);
  const std::uint32_t most = bound(schema, "maxLength", kRepeatsMax);
  if (most < least) refuse("maxLength is below minLength");
  if (error_) return "null";
  const std::string end = schema.contains("maxLength") ? std::to_string(most) : "";
  common("char");
  return add("text", R"("\"" char{)" + std::to_string(least) + "," + end + R"(} "\"")");
}

std::string SchemaGrammar::chosen(const std::string& word, const Schema& schema, const Schema& root,
                                  std::size_t depth) {
  const auto beside = [&](std::string_view other) {
    if (!schema.contains(other)) return;
    refuse("the word '" + std::string(other) + "' beside '" + word + "' is not supported");
  };
  for (const std::string_view other : kChoices) {
    if (other != word) beside(other);
  }
  for (const auto& [other, of_type] : kOfOneType) beside(other);
  if (word == "$ref") beside("type");
  if (error_) return "null";
  const Schema& named = schema[word];
  if (word == "$ref") {
    if (named.is_string()) return reference(named.get<std::string>(), root, depth);
    refuse("$ref has to be a text");
    return "null";
  }
  if (word == "const") return values(Schema::array({named}), schema);
  if (!named.is_array() || named.empty()) refuse(word + " has to be an array that is not empty");
  if (word == "allOf" && named.size() > 1) refuse("allOf of several schemas is not supported");
  if (error_) return "null";
  return word == "enum" ? values(named, schema) : choice(named, schema, root, depth);
}

std::string SchemaGrammar::values(const Schema& list, const Schema& schema) {
  std::string body;
  for (const Schema& one : list) {
    if (!has_stated_type(one, schema)) continue;
    body += (body.empty() ? "" : " | ") + literal(one.dump());
  }
  if (body.empty()) refuse("no value that the schema names has its type");
  return add("values", body);
}

std::string SchemaGrammar::choice(const Schema& list, const Schema& schema, const Schema& root,
                                  std::size_t depth) {
  std::string body;
  for (Schema one : list) {
    // What stands beside the list holds for each of it.
    if (schema.contains("type") && (one.is_object() || is_true(one))) {
      if (is_true(one)) one = Schema::object();
      if (one.contains("type") && one["type"] != schema["type"]) {
        refuse("a choice of another type than is stated beside it is not supported");
      }
      one["type"] = schema["type"];
    }
    body += (body.empty() ? "" : " | ") + value(one, root, depth + 1);
    if (error_) return "null";
  }
  return add("any", body);
}

std::string SchemaGrammar::reference(const std::string& to, const Schema& root, std::size_t depth) {
  const Reference key(&root, to);
  if (leading_) beginnings_[*leading_].insert(key);
  if (const auto known = references_.find(key); known != references_.end()) return known->second;
  if (!to.starts_with('#')) {
    refuse("$ref '" + to + "' leads out of the schema");
    return "null";
  }
  const Schema* found = nullptr;
  try {
    const Schema::json_pointer pointer(unescaped(to).substr(1));
    if (root.contains(pointer)) found = &root.at(pointer);
  } catch (const Schema::exception&) {
    // It is no pointer.
  }
  if (found == nullptr) {
    refuse("$ref '" + to + "' leads nowhere");
    return "null";
  }
  // It may lead to itself, so its name comes first.
  const std::string name = "ref-" + std::to_string(count_++);
  references_[key] = name;
  const auto leading = std::exchange(leading_, key);
  const std::string body = value(*found, root, depth + 1);
  leading_ = leading;
  rules_ += name + " ::= " + body + '\n';
  return name;
}

bool SchemaGrammar::begins_with_itself(const Reference& reference,
                                       std::map<Reference, bool>& known_good) const {
  const auto [found, is_new] = known_good.emplace(reference, false);
  if (!is_new) return !found->second;
  if (const auto next = beginnings_.find(reference); next != beginnings_.end()) {
    for (const Reference& one : next->second) {
      if (begins_with_itself(one, known_good)) return true;
    }
  }
  found->second = true;
  return false;
}

std::string SchemaGrammar::object(const Schema& schema, const Schema& root, std::size_t depth) {
  const Schema properties = schema.value("properties", Schema::object());
  const Schema required = schema.value("required", Schema::array());
  if (!properties.is_object() || !required.is_array()) {
    refuse("properties has to be an object, and required an array");
    return "null";
  }
  std::set<std::string> names;
  for (const auto& property : properties.items()) names.insert(property.key());
  std::set<std::string> needed;
  for (const Schema& name : required) {
    if (!name.is_string() || !names.contains(name.get_ref<const std::string&>())) {
      refuse("required names " + name.dump() + ", which is none of the properties");
      return "null";
    }
    needed.insert(name.get_ref<const std::string&>());
  }
  common("ws");
  if (properties.empty()) {
    const Schema others = schema.value("additionalProperties", Schema(true));
    if (others == false) return add("object", "\"{}\"");
    common("string");
    const std::string pair = add("pair", R"(string ":" ws )" + value(others, root, depth + 1));
    return add("object", R"("{" ()" + pair + R"( ("," ws )" + pair + R"()*)? "}")");
  }
  // From the last property to the first: what may follow where none has come yet, and where one
  // has.
  std::string none = "\"\"";
  std::string some = "\"\"";
  std::vector<std::pair<std::string, bool>> pairs;
  for (const auto& [name, property] : properties.items()) {
    const std::string inner = value(property, root, depth + 1);
    if (error_) return "null";
    pairs.emplace_back(literal(Schema(name).dump()) + R"( ":" ws )" + inner, needed.contains(name));
  }
  for (auto pair = pairs.rbegin(); pair != pairs.rend(); ++pair) {
    const std::string rule = add("pair", pair->first);
    const std::string with = R"("," ws )" + rule + ' ' + some;
    const std::string first = rule + ' ' + some;
    none = add("members", pair->second ? first : first + " | " + none);
    some = add("more", pair->second ? with : with + " | " + some);
  }
  return add("object", R"("{" )" + none + R"( "}")");
}

std::string SchemaGrammar::array(const Schema& schema, const Schema& root, std::size_t depth) {
  common("ws");
  // A tuple, by its name of today and by that of earlier drafts of JSON Schema.
  auto prefix = schema.find("prefixItems");
  if (prefix == schema.end()) prefix = schema.find("items");
  const bool is_tuple =
      prefix != schema.end() && (prefix->is_array() || prefix.key() == "prefixItems");
  if (is_tuple) {
    if (!prefix->is_array() || prefix->empty()) {
      refuse(prefix.key() + " has to be an array that is not empty");
    }
    if (bound(schema, "minItems", 0) > prefix->size() ||
        bound(schema, "maxItems", kRepeatsMax) < prefix->size()) {
      refuse("a tuple has as many items as it names: minItems and maxItems exclude that");
    }
    std::string body;
    for (const Schema& item : *prefix) {
      body += (body.empty() ? "" : R"( "," ws )") + value(item, root, depth + 1);
      if (error_) return "null";
    }
    return add("tuple", R"("[" )" + body + R"( "]")");
  }
  const std::string item = value(schema.value("items", Schema(true)), root, depth + 1);
  const std::uint32_t least = bound(schema, "minItems", 0);
  const std::uint32_t most = bound(schema, "maxItems", kRepeatsMax);
  if (most < least) refuse("maxItems is below minItems");
  if (error_) return "null";
  if (most == 0) return add("array", R"("[]")");
  std::string rest = R"(("," ws )" + item + "){" + std::to_string(std::max(least, 1u) - 1) + ",";
  if (schema.contains("maxItems")) rest += std::to_string(most - 1);
  rest += "}";
  const std::string items = item + ' ' + rest;
  return add("array", R"("[" )" + (least == 0 ? "(" + items + ")?" : items) + R"( "]")");
}

}  // namespace edgedraft
