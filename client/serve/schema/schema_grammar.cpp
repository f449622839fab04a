#include "client/serve/schema/schema_grammar.h"

#include <algorithm>
#include <cmath>
#include <set>

#include "client/serve/json/url_query.h"
#include "client/serve/schema/schema_words.h"
#include "client/serve/schema/text_grammars.h"
#include "shared/types/constraints.h"

namespace edgedraft::client {

using schema::find;
using schema::is_of_type;
using schema::is_true;
using schema::kChoices;
using schema::kRepeatsMax;
using schema::kTypes;
using schema::restricts;
using schema::restricts_nothing;

namespace {

constexpr std::size_t kDepthMax = 64;
// Half of a grammar's elements, leaving the rest to other rules; further bounds are not enforced.
constexpr std::uint32_t kRepeatsAllMax = 8192;
// Bounds visited members and elements, some tenths of a second of work.
constexpr std::size_t kWorkMax = 1u << 19;
// Whole numbers have up to 16 digits unless a bound needs more.
constexpr std::int64_t kWholeUsual = 9'999'999'999'999'999;

struct CommonRule {
  std::string_view name;
  std::string_view body;
  std::string_view uses;  // another rule that it uses
};

// Surrogates are left out: half of a pair is not text.
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

// Least whole number not below `number`, or above it if `is_exclusive`. Numbers of more than 18
// digits become one beyond that limit.
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
  if (rule.empty()) refuse("no value fits the schema: its keywords contradict each other");
  std::map<Reference, bool> known_good;
  for (const auto& [reference, beginnings] : beginnings_) {
    if (!begins_with_itself(reference, known_good)) continue;
    refuse("$ref '" + reference.second + "' refers to itself with nothing in between");
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
    for (const schema::Word& word : schema::words()) {
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
        refuse(std::string(word) + " must be a whole number of at least 0");
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
  // Addresses and anchors are not supported.
  if (to != "#" && !to.starts_with("#/")) {
    leave("$ref");
    return nullptr;
  }
  try {
    const Schema::json_pointer pointer(unescaped(to).substr(1));
    if (root.contains(pointer)) return &root.at(pointer);
  } catch (const Schema::exception&) {
    // Not a JSON pointer.
  }
  refuse("$ref '" + to + "' is not in the schema");
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
      refuse("a schema must be an object");
      return false;
    }
    spend(1 + one.size());
    if (const Schema* const to = find(one, "$ref")) {
      if (!to->is_string()) refuse("$ref must be a string");
      const Schema* const target =
          error_ ? nullptr : target_of(to->get_ref<const std::string&>(), root);
      if (target != nullptr) all.schemas.push_back(target);
    }
    if (const Schema* const list = find(one, "allOf")) {
      if (!list->is_array() || list->empty()) refuse("allOf must be a non-empty array");
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
  // Named first, because the schemas may refer to themselves.
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
        refuse(std::string(word) + " must be a non-empty array");
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
    const auto words = schema::words();
    const auto of_type = std::ranges::find_if(words, [&](const schema::Word& word) {
      return !word.type.empty() && std::ranges::any_of(all.schemas, [&](const Schema* schema) {
        return schema->contains(word.name);
      });
    });
    if (of_type == words.end()) return common("value");
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
      if (!one.is_string()) return refuse("type must be a string or an array of strings");
      const auto& name = one.get_ref<const std::string&>();
      if (std::ranges::find(kTypes, name) == std::end(kTypes)) {
        return refuse("unknown type '" + name + "'");
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
    // Its texts begin with a bracket, whatever follows.
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
        refuse(std::string(word) + " must be a string");
        return "";
      }
      const auto& wanted = found->get_ref<const std::string&>();
      if (word == std::string_view("pattern")) {
        follow(wanted, word);
      } else {
        const std::string_view format = schema::pattern_of_format(wanted);
        format.empty() ? leave(word) : follow(format, word);
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
      // A boolean in draft 4.
      const bool is_exclusive = beyond != nullptr && *beyond == true;
      for (const Schema* const one : {bound, beyond}) {
        if (one == nullptr || one->is_boolean()) continue;
        if (!one->is_number()) {
          refuse("bounds of numbers must be numbers");
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
  const std::string body = whole_numbers(first, last);
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
        if (!found->is_array() || found->empty()) refuse("enum must be a non-empty array");
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
  // Their values are not examined.
  for (const schema::Word& word : schema::words()) {
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
  // Named first, because the reference may refer to itself.
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

std::string listed(const std::set<std::string>& words) {
  std::string list;
  for (const std::string& word : words) list += (list.empty() ? "" : ", ") + word;
  return list;
}

ApiError unenforced_error(const std::string& param, const std::string& what) {
  return {.message = "'" + param + "': 'strict': true refuses keywords of JSON Schema that " +
                     "the grammar does not enforce (" + what + "); remove them or 'strict'",
          .param = param,
          .code = "unsupported_value"};
}

}  // namespace edgedraft::client
