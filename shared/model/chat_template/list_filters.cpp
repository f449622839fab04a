#include <algorithm>
#include <charconv>
#include <string_view>
#include <utility>

#include "shared/model/chat_template/attributes.h"
#include "shared/model/chat_template/filters.h"
#include "shared/model/chat_template/methods.h"
#include "shared/model/chat_template/operators.h"
#include "shared/model/chat_template/printing.h"
#include "shared/model/chat_template/string_operations.h"
#include "shared/model/chat_template/value_tests.h"

namespace edgedraft::chat {
namespace {

// Keys of a filter's attribute, "function.name" or "parts.0.text". Digits are an index.
std::vector<Value> attribute_path(Meter& meter, const std::string& attribute) {
  std::vector<Value> path;
  // Charge before splitting: a template may write any number of dots.
  const auto dots = static_cast<std::size_t>(std::ranges::count(attribute, '.'));
  if (!meter.spend_bytes(attribute.size()) || !meter.spend(dots)) return path;
  for (const MarkedText& part : split(MarkedText::own(attribute), ".", -1)) {
    const std::string& name = part.text();
    const bool is_index = !name.empty() && name.find_first_not_of("0123456789") == name.npos;
    std::int64_t index = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), index);
    if (!is_index) {
      path.push_back(Value::marked(part));
    } else {
      path.push_back(parsed.ec == std::errc() ? Value{index} : Value{None{}});  // none: no item
    }
  }
  return path;
}

// Reads the attribute that an argument names, of any number of items.
class AttributeReader {
 public:
  // An undefined attribute is the item itself.
  AttributeReader(Meter& meter, const Value& attribute, int line) : meter_(meter), line_(line) {
    if (const std::string* name = attribute.as_text()) {
      path_ = attribute_path(meter, *name);
    } else if (attribute.as_integer() != nullptr) {
      path_ = {attribute};
    }
  }

  Value operator()(Value value) const {
    for (const Value& key : path_) {
      const std::string* name = key.as_text();
      if (!meter_.spend(1 + (name == nullptr ? 0 : name->size() / kBytesPerStep))) return {};
      if (value.is_undefined()) {
        const std::string what = name != nullptr               ? *name
                                 : key.as_integer() != nullptr ? std::to_string(*key.as_integer())
                                                               : "an item";
        meter_.fail(line_, "cannot read '" + what + "' of an undefined value");
      }
      value = item_of(meter_, value, key, line_);
    }
    return value;
  }

 private:
  Meter& meter_;
  int line_;
  std::vector<Value> path_;
};

// select, reject, selectattr and rejectattr: keeps the items that pass, or fail, a test.
Value select(Meter& meter, const std::vector<Value>& items, const std::string& name,
             const Arguments& arguments, int line) {
  const bool wanted = name.starts_with("select");
  std::vector<Value> rest = arguments.positional;
  Value attribute;  // undefined: the item itself
  if (name.ends_with("attr")) {
    if (rest.empty() || rest[0].as_text() == nullptr) {
      meter.fail(line, "the filter '" + name + "' needs an attribute");
      return {};
    }
    attribute = rest[0];
    rest.erase(rest.begin());
  }
  std::string test;
  if (!rest.empty()) {
    test = rest[0].as_text() == nullptr ? "?" : *rest[0].as_text();
    if (!meter.spend_bytes(test.size())) return {};
    rest.erase(rest.begin());
  }
  const AttributeReader read(meter, attribute, line);
  const Arguments test_arguments{.positional = std::move(rest), .named = arguments.named};
  std::vector<Value> chosen;
  for (const Value& item : items) {
    if (!meter.spend(1)) return {};
    const Value value = read(item);
    const bool passes = test.empty()
                            ? value.truthy()
                            : apply_test(meter, value, test, test_arguments, line).truthy();
    if (passes == wanted) chosen.push_back(item);
  }
  return list_value(meter, line, std::move(chosen), ListKind::iterator);
}

Value map_items(Meter& meter, const std::vector<Value>& items, const Arguments& arguments,
                int line) {
  const bool by_attribute = arguments.positional.empty();
  const Value named = arguments.get(0, "attribute");
  const std::string* const filter = by_attribute ? nullptr : named.as_text();
  const bool known =
      by_attribute ? named.as_text() || named.as_integer() : filter != nullptr && *filter != "map";
  if (!known) {
    meter.unsupported(line, "this form of the filter 'map'");
    return {};
  }
  Arguments rest = arguments;
  if (!by_attribute) rest.positional.erase(rest.positional.begin());
  const AttributeReader read(meter, by_attribute ? named : Value{}, line);
  const Value* const fallback = by_attribute ? arguments.find(1, "default") : nullptr;
  std::vector<Value> mapped;
  for (const Value& item : items) {
    if (!meter.spend(1)) return {};
    if (filter != nullptr) {
      mapped.push_back(apply_filter(meter, item, *filter, rest, line));
    } else {
      const Value value = read(item);
      mapped.push_back(value.is_undefined() && fallback != nullptr ? *fallback : value);
    }
  }
  return list_value(meter, line, std::move(mapped), ListKind::iterator);
}

// Key for sort, unique, min and max: a string is in lower case unless the case matters.
Value sort_key(Meter& meter, const Value& value, bool case_matters) {
  const MarkedText* text = value.as_marked();
  if (text == nullptr || case_matters) return value;
  if (!meter.spend(text->size() / 8)) return {};
  return text_value(meter, change_case(*text, "lower"));
}

bool precedes(Meter& meter, const Value& a, const Value& b, int line) {
  return !meter.error() && apply_comparison(meter, "<", a, b, line);
}

using Keyed = std::pair<Value, Value>;  // key and item

Value sorted(Meter& meter, std::vector<Keyed> items, bool descends, int line) {
  std::ranges::stable_sort(
      items,
      [&](const Value& a, const Value& b) {
        return descends ? precedes(meter, b, a, line) : precedes(meter, a, b, line);
      },
      &Keyed::first);
  std::vector<Value> values;
  for (Keyed& item : items) values.push_back(std::move(item.second));
  return list_value(meter, line, std::move(values));
}

Value sort(Meter& meter, const std::vector<Value>& items, const Arguments& arguments, int line) {
  const bool case_matters = arguments.get(1, "case_sensitive").truthy();
  const Value attribute = arguments.get(2, "attribute");
  // "a,b" sorts by a, then by b.
  std::vector<AttributeReader> readers;
  if (const MarkedText* names = attribute.as_marked()) {
    if (!meter.spend(names->size())) return {};
    for (const MarkedText& name : split(*names, ",", -1)) {
      readers.emplace_back(meter, Value::marked(name), line);
    }
  } else {
    readers.emplace_back(meter, attribute, line);
  }
  std::vector<Keyed> keyed;
  for (const Value& item : items) {
    std::vector<Value> keys;
    for (const AttributeReader& read : readers) {
      keys.push_back(sort_key(meter, read(item), case_matters));
    }
    if (meter.error()) return {};
    keyed.emplace_back(keys.size() == 1 ? keys[0] : list_value(meter, line, std::move(keys)), item);
  }
  return sorted(meter, std::move(keyed), arguments.get(0, "reverse").truthy(), line);
}

Value sort_map(Meter& meter, const Value& value, const Arguments& arguments, int line) {
  const Map* map = value.as_map();
  const Value* const by = arguments.find(1, "by");
  const std::string part = by == nullptr ? "key" : by->as_text() != nullptr ? *by->as_text() : "";
  if (map == nullptr || (part != "key" && part != "value")) {
    meter.fail(line,
               "cannot apply 'dictsort' to " + value.type_name() + ", or sort by '" + part + "'");
    return {};
  }
  const bool case_matters = arguments.get(0, "case_sensitive").truthy();
  std::vector<Keyed> keyed;
  for (const auto& [key, entry] : map->entries) {
    keyed.emplace_back(sort_key(meter, part == "key" ? key : entry, case_matters),
                       list_value(meter, line, {key, entry}, ListKind::tuple));
    if (meter.error()) return {};
  }
  return sorted(meter, std::move(keyed), arguments.get(2, "reverse").truthy(), line);
}

Value unique(Meter& meter, const std::vector<Value>& items, const Arguments& arguments, int line) {
  const bool case_matters = arguments.get(0, "case_sensitive").truthy();
  const AttributeReader read(meter, arguments.get(1, "attribute"), line);
  std::vector<Value> keys;
  std::vector<Value> chosen;
  for (const Value& item : items) {
    Value key = sort_key(meter, read(item), case_matters);
    if (key.as_map() != nullptr || key.is(ListKind::list)) {
      meter.fail(line, "cannot apply 'unique' to items that are " + key.type_name());
    }
    const bool is_known = std::ranges::any_of(
        keys, [&](const Value& other) { return apply_comparison(meter, "==", key, other, line); });
    if (meter.error()) return {};
    if (is_known) continue;
    keys.push_back(std::move(key));
    chosen.push_back(item);
  }
  return list_value(meter, line, std::move(chosen), ListKind::iterator);
}

Value extreme(Meter& meter, const std::vector<Value>& items, bool largest,
              const Arguments& arguments, int line) {
  const bool case_matters = arguments.get(0, "case_sensitive").truthy();
  const AttributeReader read(meter, arguments.get(1, "attribute"), line);
  std::optional<Value> best_key;
  Value best;
  for (const Value& item : items) {
    Value key = sort_key(meter, read(item), case_matters);
    const bool better = !best_key || (largest ? precedes(meter, *best_key, key, line)
                                              : precedes(meter, key, *best_key, line));
    if (meter.error()) return {};
    if (!better) continue;
    best_key = std::move(key);
    best = item;
  }
  return best;
}

Value sum(Meter& meter, const std::vector<Value>& items, const Arguments& arguments, int line) {
  const AttributeReader read(meter, arguments.get(0, "attribute"), line);
  const Value* const start = arguments.find(1, "start");
  Value total = start == nullptr ? Value{std::int64_t{0}} : *start;
  for (const Value& item : items) {
    total = apply_binary(meter, "+", total, read(item), line);
    if (meter.error()) return {};
  }
  return total;
}

Value join_items(Meter& meter, const std::vector<Value>& items, const Arguments& arguments,
                 int line) {
  const auto separator = printed(meter, arguments.get(0, "d"), line);
  const AttributeReader read(meter, arguments.get(1, "attribute"), line);
  std::vector<Value> parts;
  for (const Value& item : items) {
    if (!meter.spend(1)) return {};
    parts.push_back(read(item));
  }
  return separator ? join(meter, parts, *separator, line) : Value{};
}

Value reversed(Meter& meter, const Value& value, std::vector<Value> items, int line) {
  std::ranges::reverse(items);
  if (value.as_text() != nullptr) return join(meter, items, MarkedText(), line);
  return list_value(meter, line, std::move(items), ListKind::iterator);
}

bool is_list_filter(const std::string& name) {
  constexpr std::string_view kNames[] = {
      "dictsort", "first",   "items",  "join",       "last", "list",       "map", "max",   "min",
      "reject",   "reverse", "select", "rejectattr", "sort", "selectattr", "sum", "unique"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

// Filters of values that are empty as soon as they are false, such as none.
bool accepts_falsy(const std::string& name) {
  return name == "map" || name.starts_with("select") || name.starts_with("reject");
}

}  // namespace

std::optional<Value> apply_list_filter(Meter& meter, const Value& value, const std::string& name,
                                       const Arguments& arguments, int line) {
  if (!is_list_filter(name)) return std::nullopt;
  if (name == "dictsort") return sort_map(meter, value, arguments, line);
  if (name == "items") {
    if (const Map* map = value.as_map()) {
      return items_of(meter, *map, ListKind::iterator, line);
    }
    if (value.is_undefined()) return Value::list({}, ListKind::iterator);
    meter.fail(line, value.type_name() + " has no items");
    return Value{};
  }
  if (value.is(ListKind::iterator) && (name == "last" || name == "reverse")) {
    meter.fail(line, "cannot apply '" + name + "' to " + value.type_name());
    return Value{};
  }
  const bool reads = !accepts_falsy(name) || value.truthy();
  auto read = reads ? items_to_read(meter, value, line) : std::vector<Value>();
  if (!read) return Value{};
  const std::vector<Value>& items = *read;
  if (name == "first") return items.empty() ? Value{} : items.front();
  if (name == "last") return items.empty() ? Value{} : items.back();
  if (name == "list") return list_value(meter, line, items);
  if (name == "map") return map_items(meter, items, arguments, line);
  if (name == "sort") return sort(meter, items, arguments, line);
  if (name == "unique") return unique(meter, items, arguments, line);
  if (name == "min" || name == "max") {
    return extreme(meter, items, name == "max", arguments, line);
  }
  if (name == "sum") return sum(meter, items, arguments, line);
  if (name == "join") return join_items(meter, items, arguments, line);
  if (name == "reverse") return reversed(meter, value, std::move(*read), line);
  return select(meter, items, name, arguments, line);
}

}  // namespace edgedraft::chat
