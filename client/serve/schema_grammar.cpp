#include "client/serve/schema_grammar.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <set>

#include "client/serve/pattern_grammar.h"
#include "client/serve/url_query.h"
#include "shared/base/constraints.h"
#include "shared/model/utf8.h"

namespace edgedraft {
namespace {

constexpr std::size_t kDepthMax = 64;
constexpr std::uint32_t kRepeatsMax = 1024;  // of one bound
// Leaves half of a grammar's elements to all else; further bounds are not enforced.
constexpr std::uint32_t kRepeatsAllMax = 8192;
// Members and elements looked at: some tenths of a second.
constexpr std::size_t kWorkMax = 1u << 19;
// Longer names may come twice in an object that has further members.
constexpr std::size_t kNameBytesMax = 64;
// Whole numbers have 16 digits unless a bound needs more.
constexpr std::int64_t kWholeUsual = 9'999'999'999'999'999;
constexpr std::int64_t kWholeMax = 999'999'999'999'999'999;

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
    {"plain", R"([^"\\\x00-\x1f\x7f])", ""},
    {"integer", R"("-"? ("0" | [1-9] [0-9]{0,15}))", ""},
    {"number", R"(integer ("." [0-9]{1,15})? ([eE] [+\-]? [0-9]{1,2})?)", "integer"},
    {"boolean", R"("true" | "false")", ""},
    {"null", R"("null")", ""},
    {"pair", R"(string ":" ws value)", "value"},
    {"object", R"("{" (pair ("," ws pair)*)? "}")", "pair"},
    {"array", R"("[" (value ("," ws value)*)? "]")", "value"},
    {"value", "object | array | string | number | boolean | null", ""},
};

// A word that restricts values of one type, or of any (an empty type).
struct Word {
  std::string_view name;
  std::string_view type;
  bool is_followed;
};
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
    {"minimum", "number", false},  // followed for integers, as the next three
    {"maximum", "number", false},
    {"exclusiveMinimum", "number", false},
    {"exclusiveMaximum", "number", false},
    {"multipleOf", "number", false},
    {"not", "", false},
    {"if", "", false},
    {"$dynamicRef", "", false},
    {"$recursiveRef", "", false},
};
constexpr std::string_view kTypes[] = {"object",  "array",   "string", "number",
                                       "integer", "boolean", "null"};
constexpr const char* kChoices[] = {"anyOf", "oneOf"};

// Formats that are followed, by patterns.
constexpr std::pair<std::string_view, std::string_view> kFormats[] = {
    {"date", R"(^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])$)"},
    {"time", R"(^([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?([zZ]|[+-]([01]\d|2[0-3]):[0-5]\d)$)"},
    {"date-time",
     R"(^\d{4}-(0[1-9]|1[0-2])-(0[1-9]|[12]\d|3[01])[tT]([01]\d|2[0-3]):[0-5]\d:([0-5]\d|60)(\.\d+)?([zZ]|[+-]([01]\d|2[0-3]):[0-5]\d)$)"},
    {"uuid", R"(^[\da-fA-F]{8}-([\da-fA-F]{4}-){3}[\da-fA-F]{12}$)"},
    {"ipv4", R"(^(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)(\.(25[0-5]|2[0-4]\d|1\d\d|[1-9]?\d)){3}$)"},
    {"email", R"(^[^\s@]+@[^\s@]+$)"},
};

const SchemaGrammar::Schema kText = {{"type", "string"}};

const SchemaGrammar::Schema* find(const SchemaGrammar::Schema& schema, std::string_view word) {
  const auto found = schema.find(word);
  return found == schema.end() ? nullptr : &*found;
}

// Whether a word that is not followed restricts nothing here, by its value or because texts of the
// schema have only the properties and items that it names.
bool restricts_nothing(std::string_view word, const SchemaGrammar::Schema& schema) {
  const SchemaGrammar::Schema& value = *find(schema, word);
  if (word == "if") return !schema.contains("then") && !schema.contains("else");
  if (word == "minProperties") return value == 0;
  if (word == "propertyNames" && value == true) return true;
  if (word == "unevaluatedProperties" && value == false) return schema.contains("properties");
  if (word == "unevaluatedItems" && value == false) return schema.contains("prefixItems");
  if (word == "uniqueItems" || word == "not") return value == false;
  return value.is_object() && value.empty() && word != "contains";
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

bool is_true(const SchemaGrammar::Schema& schema) {
  return schema.is_boolean() && schema.get<bool>();
}

// Whether it restricts values by itself, beside $ref, allOf and lists of which a schema is chosen.
bool restricts(const SchemaGrammar::Schema& schema,
               const std::set<const SchemaGrammar::Schema*>& chosen) {
  for (const char* const word : kChoices) {
    const auto* const list = find(schema, word);
    if (list != nullptr && !chosen.contains(list)) return true;
  }
  for (const char* const word : {"type", "enum", "const", "format"}) {
    if (schema.contains(word)) return true;
  }
  return std::ranges::any_of(kWords, [&](const Word& word) { return schema.contains(word.name); });
}

std::string digits(char first, char last) {
  if (first == last) return {'"', first, '"'};
  return {'[', first, '-', last, ']'};
}

// Numbers from `first` to `last`, digits of the same count.
std::string numbers(std::string_view first, std::string_view last) {
  const std::size_t count = first.size();
  const std::string zeros(count, '0');
  const std::string nines(count, '9');
  if (count == 0) return "\"\"";
  if (first == zeros && last == nines) return "[0-9]{" + std::to_string(count) + "}";
  if (first[0] == last[0]) {
    return digits(first[0], first[0]) + ' ' + numbers(first.substr(1), last.substr(1));
  }
  // Those between begin with a digit behind which any may stand.
  char from = first[0];
  char to = last[0];
  std::string body;
  if (first.substr(1) != std::string_view(zeros).substr(1)) {
    body = digits(from, from) + ' ' + numbers(first.substr(1), std::string_view(nines).substr(1));
    ++from;
  }
  if (last.substr(1) != std::string_view(nines).substr(1)) {
    body += (body.empty() ? "" : " | ") + digits(to, to) + ' ' +
            numbers(std::string_view(zeros).substr(1), last.substr(1));
    --to;
  }
  if (from <= to) {
    body += (body.empty() ? "" : " | ") + digits(from, to) + " [0-9]{" + std::to_string(count - 1) +
            "}";
  }
  return '(' + body + ')';
}

// Appends alternatives for the whole numbers from `first`, which is above zero, to `last`.
void append_numbers(std::string& body, std::int64_t first, std::int64_t last, const char* sign) {
  while (first <= last) {
    const std::string from = std::to_string(first);
    const std::string end = std::to_string(last);
    std::string rule;
    if (from.size() == end.size()) {
      rule = numbers(from, end);
      first = kWholeMax + 1;
    } else if (from[0] == '1' && from.find_first_not_of('0', 1) == std::string::npos) {
      // All with fewer digits than the last.
      rule = "[1-9] [0-9]{" + std::to_string(from.size() - 1) + ',' +
             std::to_string(end.size() - 2) + '}';
      first = std::stoll('1' + std::string(end.size() - 1, '0'));
    } else {
      rule = numbers(from, std::string(from.size(), '9'));
      first = std::stoll('1' + std::string(from.size(), '0'));
    }
    body += (body.empty() ? "" : " | ") + std::string(sign) + rule;
  }
}

// The least whole number that is not below `number`, and above it if `is_exclusive`. Numbers of
// more than 18 digits are one beyond them.
std::int64_t ceiling(const SchemaGrammar::Schema& number, bool is_exclusive) {
  if (number.is_number_unsigned() && number.get<std::uint64_t>() > kWholeMax) return kWholeMax + 1;
  std::int64_t least = 0;
  if (number.is_number_integer()) {
    least = number.get<std::int64_t>();
  } else {
    const double bound = std::clamp(number.get<double>(), -1e18, 1e18);
    least = static_cast<std::int64_t>(std::ceil(bound));
    is_exclusive = is_exclusive && static_cast<double>(least) == bound;
  }
  return std::clamp(least + (is_exclusive ? 1 : 0), -kWholeMax - 1, kWholeMax + 1);
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
  std::string rule = value({.schemas = {&schema}}, schema, 0);
  if (rule.empty()) refuse("no value fits the schema: its words exclude each other");
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

void SchemaGrammar::spend(std::size_t work) {
  spent_ += work;
  if (spent_ > kWorkMax) refuse("the schema is too large");
}

void SchemaGrammar::leave_words_of(const All& all, std::string_view type) {
  for (const Schema* const schema : all.schemas) {
    for (const Word& word : kWords) {
      if (word.type != type || word.is_followed || !schema->contains(word.name)) continue;
      if (!restricts_nothing(word.name, *schema)) leave(word.name);
    }
  }
}

SchemaGrammar::Range SchemaGrammar::bounds(const All& all, const char* least, const char* most) {
  Range range{};
  for (const Schema* const schema : all.schemas) {
    for (const char* const word : {least, most}) {
      const Schema* const bound = find(*schema, word);
      if (bound == nullptr) continue;
      if (!is_of_type(*bound, "integer") || bound->get<double>() < 0) {
        refuse(std::string(word) + " has to be a whole number from 0 on");
        return {};
      }
      const bool is_large = bound->get<double>() > kRepeatsMax;
      const auto count = is_large ? kRepeatsMax : bound->get<std::uint32_t>();
      if (is_large) leave(word);
      if (word == least) range.least = std::max(range.least, count);
      if (word == most && !is_large) range.most = std::min(range.most.value_or(count), count);
    }
  }
  if (range.most && *range.most < range.least) return range;
  const std::uint32_t repeats = range.most.value_or(range.least);
  if (repeats_ + repeats <= kRepeatsAllMax) {
    repeats_ += repeats;
    return range;
  }
  if (range.least > 1) leave(least);
  if (range.most) leave(most);
  return {.least = std::min(range.least, 1u), .most = std::nullopt};
}

const SchemaGrammar::Schema* SchemaGrammar::target_of(const std::string& to, const Schema& root) {
  // Addresses and anchors are not followed.
  if (to != "#" && !to.starts_with("#/")) {
    leave("$ref");
    return nullptr;
  }
  try {
    const Schema::json_pointer pointer(unescaped(to).substr(1));
    if (root.contains(pointer)) return &root.at(pointer);
  } catch (const Schema::exception&) {
    // It is no pointer.
  }
  refuse("$ref '" + to + "' leads nowhere");
  return nullptr;
}

bool SchemaGrammar::expand(All& all, const Schema& root) {
  std::set<const Schema*> seen;
  std::vector<const Schema*> restricting;
  for (std::size_t i = 0; i < all.schemas.size() && !error_; ++i) {
    const Schema& one = *all.schemas[i];
    if (!seen.insert(&one).second || is_true(one)) continue;
    if (one.is_boolean()) return false;
    if (!one.is_object()) {
      refuse("a schema has to be an object");
      return false;
    }
    spend(1 + one.size());
    if (const Schema* const to = find(one, "$ref")) {
      if (!to->is_string()) refuse("$ref has to be a text");
      const Schema* const target =
          error_ ? nullptr : target_of(to->get_ref<const std::string&>(), root);
      if (target != nullptr) all.schemas.push_back(target);
    }
    if (const Schema* const list = find(one, "allOf")) {
      if (!list->is_array() || list->empty()) refuse("allOf has to be an array that is not empty");
      if (error_) return false;
      for (const Schema& each : *list) all.schemas.push_back(&each);
    }
    if (restricts(one, all.chosen)) restricting.push_back(&one);
  }
  all.schemas = std::move(restricting);
  return !error_;
}

std::string SchemaGrammar::value(All all, const Schema& root, std::size_t depth) {
  if (depth > kDepthMax) {
    refuse("the schema is nested too deeply");
    return "";
  }
  const std::vector<const Schema*> given = all.schemas;
  if (given.size() == 1 && given[0]->is_object() && !given[0]->contains("allOf") &&
      !restricts(*given[0], all.chosen)) {
    const Schema* const to = find(*given[0], "$ref");
    if (to != nullptr && to->is_string()) return reference(to->get<std::string>(), root, depth);
  }
  if (!expand(all, root)) return "";
  if (all.schemas.empty()) return common("value");
  if (leading_ || (given.size() == 1 && all.schemas == given)) return of_all(all, root, depth);
  if (const auto known = known_.find(all); known != known_.end()) return known->second;
  // They may lead to themselves, so their name comes first.
  const std::string name = "all-" + std::to_string(count_++);
  known_[all] = name;
  const std::string body = of_all(all, root, depth);
  rules_ += name + " ::= " + (body.empty() ? "[]" : body) + '\n';
  return known_[all] = body.empty() ? "" : name;
}

std::string SchemaGrammar::of_all(const All& all, const Schema& root, std::size_t depth) {
  bool is_listed = false;
  for (const Schema* const schema : all.schemas) {
    for (const char* const word : kChoices) {
      const Schema* const list = find(*schema, word);
      if (list == nullptr || all.chosen.contains(list)) continue;
      if (!list->is_array() || list->empty()) {
        refuse(std::string(word) + " has to be an array that is not empty");
        return "";
      }
      return choice(*list, all, root, depth);
    }
    is_listed = is_listed || schema->contains("const") || schema->contains("enum");
  }
  const auto types = types_of(all);
  if (error_) return "";
  leave_words_of(all, "");
  if (is_listed) return values(all, types);
  if (!types) {
    const auto* of_type = std::ranges::find_if(kWords, [&](const Word& word) {
      return !word.type.empty() && std::ranges::any_of(all.schemas, [&](const Schema* schema) {
        return schema->contains(word.name);
      });
    });
    if (of_type == std::end(kWords)) return common("value");
    return typed(std::string(of_type->type), all, root, depth);
  }
  std::string body;
  for (const std::string& type : *types) {
    const std::string rule = typed(type, all, root, depth);
    if (error_) return "";
    if (!rule.empty()) body += (body.empty() ? "" : " | ") + rule;
  }
  return types->size() < 2 || body.empty() ? body : add("types", body);
}

std::optional<std::vector<std::string>> SchemaGrammar::types_of(const All& all) {
  std::optional<std::vector<std::string>> types;
  for (const Schema* const schema : all.schemas) {
    const Schema* const type = find(*schema, "type");
    if (type == nullptr) continue;
    std::vector<std::string> stated;
    const auto take = [&](const Schema& one) {
      if (!one.is_string()) return refuse("type has to be a text or an array of them");
      const auto& name = one.get_ref<const std::string&>();
      if (std::ranges::find(kTypes, name) == std::end(kTypes)) {
        return refuse("there is no type '" + name + "'");
      }
      if (std::ranges::find(stated, name) == stated.end()) stated.push_back(name);
    };
    if (type->is_array() && !type->empty()) {
      for (const Schema& one : *type) take(one);
    } else {
      take(*type);
    }
    if (!types) {
      types = std::move(stated);
      continue;
    }
    const auto has = [](const std::vector<std::string>& list, const char* name) {
      return std::ranges::find(list, name) != list.end();
    };
    // Integers are numbers.
    if (has(*types, "integer") && has(stated, "number")) stated.emplace_back("integer");
    if (has(*types, "number") && has(stated, "integer")) types->emplace_back("integer");
    std::erase_if(*types, [&](const std::string& name) { return !has(stated, name.c_str()); });
  }
  return types;
}

std::string SchemaGrammar::typed(const std::string& type, const All& all, const Schema& root,
                                 std::size_t depth) {
  leave_words_of(all, type);
  if (type == "object" || type == "array") {
    // Its texts begin with a bracket, whatever is in them.
    const auto leading = std::exchange(leading_, std::nullopt);
    std::string rule = type == "object" ? object(all, root, depth) : array(all, root, depth);
    leading_ = leading;
    return rule;
  }
  if (type == "string") return text(all);
  if (type == "integer") return integer(all);
  return common(type);
}

std::string SchemaGrammar::text(const All& all) {
  std::optional<PatternGrammar> followed;
  const auto follow = [&](std::string_view pattern, std::string_view word) {
    const auto found = pattern_grammar(pattern);
    if (!found || followed || repeats_ + found->repeats > kRepeatsAllMax) return leave(word);
    if (!found->is_exact) leave(word);
    repeats_ += found->repeats;
    followed = found;
  };
  for (const char* const word : {"pattern", "format"}) {
    for (const Schema* const schema : all.schemas) {
      const Schema* const found = find(*schema, word);
      if (found == nullptr) continue;
      if (!found->is_string()) {
        refuse(std::string(word) + " has to be a text");
        return "";
      }
      const auto& wanted = found->get_ref<const std::string&>();
      if (word == std::string_view("pattern")) {
        follow(wanted, word);
      } else {
        const auto* format =
            std::ranges::find(kFormats, wanted, [](const auto& f) { return f.first; });
        format == std::end(kFormats) ? leave(word) : follow(format->second, word);
      }
    }
  }
  const auto has = [&](const char* word) {
    return std::ranges::any_of(all.schemas, [&](const Schema* s) { return s->contains(word); });
  };
  if (followed) {
    for (const char* const word : {"minLength", "maxLength"}) {
      if (has(word)) leave(word);
    }
    common("char");
    return add("text", R"("\"" ()" + followed->body + R"() "\"")");
  }
  if (!has("minLength") && !has("maxLength")) return common("string");
  const Range length = bounds(all, "minLength", "maxLength");
  if (error_ || (length.most && *length.most < length.least)) return "";
  const std::string end = length.most ? std::to_string(*length.most) : "";
  common("char");
  return add("text", R"("\"" char{)" + std::to_string(length.least) + "," + end + R"(} "\"")");
}

std::string SchemaGrammar::integer(const All& all) {
  std::optional<std::int64_t> least;
  std::optional<std::int64_t> most;
  for (const Schema* const schema : all.schemas) {
    if (schema->contains("multipleOf")) leave("multipleOf");
    for (const bool is_least : {true, false}) {
      const Schema* const bound = find(*schema, is_least ? "minimum" : "maximum");
      const Schema* const beyond =
          find(*schema, is_least ? "exclusiveMinimum" : "exclusiveMaximum");
      // Draft 4 has true there.
      const bool is_exclusive = beyond != nullptr && *beyond == true;
      for (const Schema* const one : {bound, beyond}) {
        if (one == nullptr || one->is_boolean()) continue;
        if (!one->is_number()) {
          refuse("the bounds of numbers have to be numbers");
          return "";
        }
        const bool excludes = one == beyond || is_exclusive;
        if (is_least) {
          least = std::max(least.value_or(-kWholeMax - 1), ceiling(*one, excludes));
        } else {
          const Schema negated =
              one->is_number_float() ? Schema(-one->get<double>())
              : one->is_number_unsigned() && one->get<std::uint64_t>() > kWholeMax
                  ? Schema(-1e18)
                  : Schema(-std::max(one->get<std::int64_t>(), -kWholeMax - 1));
          most = std::min(most.value_or(kWholeMax + 1), -ceiling(negated, excludes));
        }
      }
    }
  }
  if (!least && !most) return common("integer");
  const std::int64_t first = std::max(
      least.value_or(most.value_or(0) < -kWholeUsual ? -kWholeMax : -kWholeUsual), -kWholeMax);
  const std::int64_t last =
      std::min(most.value_or(first > kWholeUsual ? kWholeMax : kWholeUsual), kWholeMax);
  std::string body = first <= 0 && last >= 0 ? "\"0\"" : "";
  append_numbers(body, std::max<std::int64_t>(first, 1), last, "");
  append_numbers(body, std::max<std::int64_t>(-last, 1), -first, "\"-\" ");
  return body.empty() ? "" : add("integer", body);
}

std::string SchemaGrammar::values(const All& all,
                                  const std::optional<std::vector<std::string>>& types) {
  std::optional<std::vector<const Schema*>> list;
  for (const Schema* const schema : all.schemas) {
    for (const char* const word : {"const", "enum"}) {
      const Schema* const found = find(*schema, word);
      if (found == nullptr) continue;
      std::vector<const Schema*> named{found};
      if (word == std::string_view("enum")) {
        if (!found->is_array() || found->empty())
          refuse("enum has to be an array that is not empty");
        spend(found->size());
        if (error_) return "";
        named.clear();
        for (const Schema& one : *found) named.push_back(&one);
      }
      if (!list) {
        list = std::move(named);
        continue;
      }
      std::set<std::string> texts;
      for (const Schema* const one : named) texts.insert(one->dump());
      std::erase_if(*list, [&](const Schema* one) { return !texts.contains(one->dump()); });
    }
  }
  std::string body;
  std::set<std::string_view> found;  // types
  for (const Schema* const one : *list) {
    const auto fits = [&](std::string_view type) { return is_of_type(*one, type); };
    if (types && std::ranges::none_of(*types, fits)) continue;
    for (const std::string_view type : kTypes) {
      if (fits(type)) found.insert(type);
    }
    body += (body.empty() ? "" : " | ") + literal(one->dump());
    if (body.size() > kGrammarBytesMax) refuse("the schema is too large");
    if (error_) return "";
  }
  // Their values are not looked into.
  for (const Word& word : kWords) {
    for (const Schema* const schema : all.schemas) {
      if (found.contains(word.type) && schema->contains(word.name)) leave(word.name);
    }
  }
  return body.empty() ? "" : add("values", body);
}

std::string SchemaGrammar::choice(const Schema& list, All all, const Schema& root,
                                  std::size_t depth) {
  all.chosen.insert(&list);
  std::erase_if(all.schemas, [&](const Schema* one) { return !restricts(*one, all.chosen); });
  std::string body;
  for (const Schema& one : list) {
    All both = all;
    both.schemas.push_back(&one);
    const std::string rule = value(std::move(both), root, depth + 1);
    if (error_) return "";
    if (!rule.empty()) body += (body.empty() ? "" : " | ") + rule;
  }
  return body.empty() ? "" : add("any", body);
}

std::string SchemaGrammar::reference(const std::string& to, const Schema& root, std::size_t depth) {
  const Reference key(&root, to);
  if (leading_) beginnings_[*leading_].insert(key);
  if (const auto known = references_.find(key); known != references_.end()) return known->second;
  const Schema* const found = target_of(to, root);
  if (found == nullptr) return error_ ? "" : common("value");
  // It may lead to itself, so its name comes first.
  const std::string name = "ref-" + std::to_string(count_++);
  references_[key] = name;
  const auto leading = std::exchange(leading_, key);
  const std::string body = value({.schemas = {found}}, root, depth + 1);
  leading_ = leading;
  rules_ += name + " ::= " + (body.empty() ? "[]" : body) + '\n';
  return references_[key] = body.empty() ? "" : name;
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

std::string SchemaGrammar::object(const All& all, const Schema& root, std::size_t depth) {
  std::vector<std::pair<std::string, All>> members;
  std::map<std::string, std::size_t> known;
  const auto member = [&](const std::string& name, const All& otherwise) -> All& {
    const auto [found, is_new] = known.emplace(name, members.size());
    if (is_new) members.emplace_back(name, otherwise);
    return members[found->second].second;
  };
  const Schema* limits_others = nullptr;
  bool has_patterns = false;
  bool is_closed = false;
  double least = 0;
  All others;  // what members without a name of their own have to be
  for (const Schema* const schema : all.schemas) {
    if (const Schema* const properties = find(*schema, "properties")) {
      if (!properties->is_object()) refuse("properties has to be an object");
      if (limits_others != nullptr) leave("additionalProperties");
      spend(properties->size());
      if (error_) return "";
      for (const auto& [name, property] : properties->items()) {
        member(name, {}).schemas.push_back(&property);
      }
    }
    if (const Schema* const rest = find(*schema, "additionalProperties"); rest && !is_true(*rest)) {
      limits_others = rest;
      if (members.size() >
          (find(*schema, "properties") ? find(*schema, "properties")->size() : 0)) {
        leave("additionalProperties");
      }
      is_closed = is_closed || *rest == false;
      if (!rest->empty()) others.schemas.push_back(rest);
    }
    const Schema* const patterns = find(*schema, "patternProperties");
    has_patterns = has_patterns || (patterns != nullptr && !patterns->empty());
    const Schema* const count = find(*schema, "minProperties");
    if (count != nullptr && count->is_number()) least = std::max(least, count->get<double>());
  }
  if (has_patterns || is_closed) others = {};
  is_closed = is_closed && !has_patterns;
  std::set<std::string> needed;
  const auto name_all = [&](const Schema& names) {
    if (!names.is_array()) return;
    spend(names.size());
    for (const Schema& name : names) {
      if (name.is_string() && !error_) member(name.get<std::string>(), others);
    }
  };
  for (const Schema* const schema : all.schemas) {
    if (const Schema* const required = find(*schema, "required")) {
      if (!required->is_array()) refuse("required has to be an array");
      name_all(*required);
      for (const Schema& name : *required) {
        if (!name.is_string()) refuse("required has to be an array of texts");
        if (error_) return "";
        needed.insert(name.get<std::string>());
      }
    }
    // Members that a condition, which is not followed, may ask for.
    if (is_closed) continue;
    const auto name_of = [&](const Schema* condition) {
      if (condition == nullptr || !condition->is_object()) return;
      if (const Schema* const names = find(*condition, "required")) name_all(*names);
      const Schema* const properties = find(*condition, "properties");
      if (properties == nullptr || !properties->is_object()) return;
      for (const auto& property : properties->items()) member(property.key(), others);
    };
    name_of(find(*schema, "then"));
    name_of(find(*schema, "else"));
    for (const char* const word : {"dependentRequired", "dependentSchemas", "dependencies"}) {
      const Schema* const conditions = find(*schema, word);
      if (conditions == nullptr || !conditions->is_object()) continue;
      for (const Schema& condition : *conditions) {
        name_all(condition);
        name_of(&condition);
      }
    }
  }
  if (error_) return "";
  common("ws");
  if (members.empty())
    return is_closed ? add("object", "\"{}\"") : record(all, others, root, depth);
  // From the last property to the first: what may follow where none has come yet, and where one
  // has.
  std::string none = "\"\"";
  std::string some = "\"\"";
  std::vector<std::pair<std::string, bool>> pairs;
  for (const auto& [name, schemas] : members) {
    const std::string inner = value(schemas, root, depth + 1);
    if (error_ || (inner.empty() && needed.contains(name))) return "";
    if (inner.empty()) continue;
    pairs.emplace_back(literal(Schema(name).dump()) + R"( ":" ws )" + inner, needed.contains(name));
  }
  const bool goes_on = has_patterns || !others.schemas.empty() || least > double(members.size());
  const std::string inner = goes_on && !is_closed ? value(others, root, depth + 1) : "";
  if (!inner.empty()) {
    std::vector<std::string> names;
    for (const auto& [name, index] : known) {
      // One that JSON escapes cannot come again, as the others have no escapes.
      const bool is_plain = Schema(name).dump().size() == name.size() + 2;
      if (is_plain && name.size() <= kNameBytesMax) names.push_back(name);
    }
    common("plain");
    const std::string pair = add("pair", R"("\"" )" + other_name(names, 0) + R"( ":" ws )" + inner);
    some = add("more", R"(("," ws )" + pair + ")*");
    none = add("members", '(' + pair + ' ' + some + ")?");
  }
  for (auto pair = pairs.rbegin(); pair != pairs.rend(); ++pair) {
    const std::string rule = add("pair", pair->first);
    const std::string with = R"("," ws )" + rule + ' ' + some;
    const std::string first = rule + ' ' + some;
    none = add("members", pair->second ? first : first + " | " + none);
    some = add("more", pair->second ? with : with + " | " + some);
  }
  for (const Schema* const schema : all.schemas) {
    if (schema->contains("propertyNames") && !restricts_nothing("propertyNames", *schema)) {
      leave("propertyNames");
    }
  }
  return add("object", R"("{" )" + none + R"( "}")");
}

std::string SchemaGrammar::record(const All& all, const All& others, const Schema& root,
                                  std::size_t depth) {
  All names;
  for (const Schema* const schema : all.schemas) {
    if (const Schema* const wanted = find(*schema, "propertyNames"))
      names.schemas.push_back(wanted);
  }
  if (!names.schemas.empty()) names.schemas.push_back(&kText);
  const std::string name = names.schemas.empty() ? common("string") : value(names, root, depth + 1);
  const std::string inner = value(others, root, depth + 1);
  if (error_) return "";
  if (name.empty() || inner.empty()) return add("object", "\"{}\"");
  const std::string pair = add("pair", name + R"( ":" ws )" + inner);
  return add("object", R"("{" ()" + pair + R"( ("," ws )" + pair + R"()*)? "}")");
}

std::string SchemaGrammar::other_name(std::span<const std::string> names, std::size_t at) {
  std::string listed;
  std::string longer;
  bool is_name = false;
  while (!names.empty() && !error_) {
    const std::string_view rest = std::string_view(names.front()).substr(at);
    if (rest.empty()) {
      is_name = true;
      names = names.subspan(1);
      continue;
    }
    const std::string_view c = rest.substr(0, utf8_front(rest).byte_count);
    std::size_t count = 1;
    while (count < names.size() && std::string_view(names[count]).substr(at).starts_with(c))
      ++count;
    if (std::string_view("]^-").find(c) != std::string_view::npos) listed += '\\';
    listed += c;
    longer += " | " + literal(c) + ' ' + other_name(names.first(count), at + c.size());
    names = names.subspan(count);
  }
  return add("name", "[^" + listed + R"("\\\x00-\x1f\x7f] plain* "\"")" +
                         (is_name ? "" : R"( | "\"")") + longer);
}

std::string SchemaGrammar::array(const All& all, const Schema& root, std::size_t depth) {
  common("ws");
  const Range count = bounds(all, "minItems", "maxItems");
  // A tuple, by its name of today and by that of earlier drafts of JSON Schema.
  const auto tuple_of = [](const Schema& schema) {
    const Schema* const prefix = find(schema, "prefixItems");
    const Schema* const items = find(schema, "items");
    return prefix != nullptr ? prefix : items != nullptr && items->is_array() ? items : nullptr;
  };
  const auto item_at = [&](std::size_t index) {
    All item;
    for (const Schema* const schema : all.schemas) {
      const Schema* const tuple = tuple_of(*schema);
      const Schema* const items = find(*schema, "items");
      if (tuple != nullptr && index < tuple->size()) {
        item.schemas.push_back(&(*tuple)[index]);
      } else if (items != nullptr && items != tuple) {
        item.schemas.push_back(items);
      }
    }
    return item;
  };
  std::size_t named = 0;
  for (const Schema* const schema : all.schemas) {
    const Schema* const tuple = tuple_of(*schema);
    if (tuple == nullptr) continue;
    if (!tuple->is_array() || tuple->empty()) {
      refuse(std::string(schema->contains("prefixItems") ? "prefixItems" : "items") +
             " has to be an array that is not empty");
    }
    named = std::max(named, tuple->size());
  }
  if (error_ || (count.most && *count.most < count.least)) return "";
  std::string body;
  const std::size_t most = std::min<std::size_t>(named, count.most.value_or(kRepeatsMax));
  for (std::size_t i = 0; i < most; ++i) {
    const std::string item = value(item_at(i), root, depth + 1);
    if (error_ || (item.empty() && i < count.least)) return "";
    if (item.empty()) break;
    body += (body.empty() ? "" : R"( "," ws )") + item;
  }
  // A tuple has no more than it names, unless it must.
  if (named > 0 && count.least <= named) return add("tuple", R"("[" )" + body + R"( "]")");
  const std::string item = value(item_at(named), root, depth + 1);
  if (error_ || (item.empty() && count.least > 0)) return "";
  if (item.empty() || (count.most && *count.most == 0)) return add("array", R"("[]")");
  const auto first = static_cast<std::uint32_t>(named > 0 ? named : 1);
  std::string rest =
      R"(("," ws )" + item + "){" + std::to_string(std::max(count.least, first) - first) + ",";
  if (count.most) rest += std::to_string(*count.most - first);
  rest += "}";
  const std::string items = (named > 0 ? body : item) + ' ' + rest;
  return add("array", R"("[" )" + (count.least == 0 ? "(" + items + ")?" : items) + R"( "]")");
}

std::string listed(const std::set<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ", ") + word;
  return list;
}

ApiError unenforced_error(const std::string& param, const std::string& what) {
  return {.message = "'" + param +
                     "': with 'strict': true, words of JSON Schema are refused that " +
                     "the grammar does not enforce (" + what + "); remove them or 'strict'",
          .param = param,
          .code = "unsupported_value"};
}

}  // namespace edgedraft
