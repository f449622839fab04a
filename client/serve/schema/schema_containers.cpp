#include <algorithm>
#include <string_view>
#include <utility>

#include "client/serve/schema/schema_grammar.h"
#include "client/serve/schema/schema_words.h"
#include "shared/model/utf8.h"

// Grammars of objects and arrays.
namespace edgedraft::client {

using schema::find;
using schema::is_true;
using schema::kRepeatsMax;
using schema::restricts_nothing;

namespace {

// Longer names may repeat in an object with additional members.
constexpr std::size_t kNameBytesMax = 64;

const SchemaGrammar::Schema kText = {{"type", "string"}};

}  // namespace

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
  All others;  // schemas of members without their own
  for (const Schema* const schema : all.schemas) {
    if (const Schema* const properties = find(*schema, "properties")) {
      if (!properties->is_object()) refuse("properties must be an object");
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
      if (!required->is_array()) refuse("required must be an array");
      name_all(*required);
      for (const Schema& name : *required) {
        if (!name.is_string()) refuse("required must be an array of strings");
        if (error_) return "";
        needed.insert(name.get<std::string>());
      }
    }
    // A condition, which is not enforced, may require these members.
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
  // From the last property to the first: the possible continuations before and after the first
  // member.
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
      // A name with JSON escapes cannot repeat, because other names have no escapes.
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
  // A tuple, by its current name and that of earlier drafts of JSON Schema.
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
             " must be a non-empty array");
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
  // A tuple has only its named items, unless more are required.
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

}  // namespace edgedraft::client
