#include "shared/model/chat_template/filters.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

#include "shared/model/chat_template/json_value.h"
#include "shared/model/chat_template/methods.h"
#include "shared/model/chat_template/operators.h"
#include "shared/model/chat_template/string_operations.h"

namespace edgedraft::chat {
namespace {

// Escapes shift marks, so a text with any foreign part becomes entirely foreign.
MarkedText quoted_as_json(const MarkedText& text) {
  constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
  std::string json = nlohmann::json(text.text()).dump(-1, ' ', false, kReplace);
  return text.has_foreign() ? MarkedText::foreign(std::move(json))
                            : MarkedText::own(std::move(json));
}

class Writer {
 public:
  Writer(Meter& meter, std::int64_t indent, int line)
      : meter_(meter), indent_(indent), line_(line) {}

  // Recursion is bounded: values nest at most kTemplateDepthMax deep.
  void write(const Value& value, std::size_t level) {
    if (!meter_.spend(1)) return;
    if (const MarkedText* text = value.as_marked()) {
      add(quoted_as_json(*text));
    } else if (const auto* list = value.as_list()) {
      write_group("[", "]", list->size(), level,
                  [&](std::size_t i) { write((*list)[i], level + 1); });
    } else if (const Map* map = value.as_map()) {
      write_group("{", "}", map->entries.size(), level, [&](std::size_t i) {
        add(quoted_as_json(map->entries[i].first));
        add(MarkedText::own(": "));
        write(map->entries[i].second, level + 1);
      });
    } else if (value.is_none()) {
      add(MarkedText::own("null"));
    } else if (value.is_boolean()) {
      add(MarkedText::own(value.truthy() ? "true" : "false"));
    } else if (value.as_integer() != nullptr) {
      add(MarkedText::own(std::to_string(*value.as_integer())));
    } else if (value.as_fraction() != nullptr) {
      add(MarkedText::own(fraction_text(*value.as_fraction())));
    } else {
      meter_.fail(line_, "cannot convert " + value.type_name() + " to JSON");
    }
  }

  MarkedText take() { return std::move(out_); }

 private:
  template <class WriteItem>
  void write_group(const char* open, const char* close, std::size_t count, std::size_t level,
                   WriteItem write_item) {
    add(MarkedText::own(open));
    for (std::size_t i = 0; i < count && !meter_.error(); ++i) {
      if (i > 0) add(MarkedText::own(indent_ < 0 ? ", " : ","));
      new_line(level + 1);
      write_item(i);
    }
    if (count > 0) new_line(level);
    add(MarkedText::own(close));
  }

  void new_line(std::size_t level) {
    if (indent_ < 0) return;
    add(MarkedText::own("\n" + std::string(level * static_cast<std::size_t>(indent_), ' ')));
  }

  void add(const MarkedText& text) {
    if (meter_.spend_bytes(text.size())) out_.append(text);
  }

  Meter& meter_;
  std::int64_t indent_;
  int line_;
  MarkedText out_;
};

// Filter tojson with Hugging Face's settings: Python's json.dumps with ensure_ascii off. `indent`
// is in spaces per level; negative: one line.
Value to_json(Meter& meter, const Value& value, std::int64_t indent, int line) {
  if (indent > 16) {
    meter.unsupported(line, "tojson with that indent");
    return {};
  }
  Writer writer(meter, indent, line);
  writer.write(value, 0);
  return text_value(meter, writer.take());
}

Value length_of(Meter& meter, const Value& value, int line) {
  if (const auto* list = value.as_list()) return {static_cast<std::int64_t>(list->size())};
  if (const Map* map = value.as_map()) return {static_cast<std::int64_t>(map->entries.size())};
  if (value.is_undefined()) return {std::int64_t{0}};
  if (const std::string* text = value.as_text()) {
    if (!meter.spend_bytes(text->size())) return {};
    return {character_count(*text)};
  }
  meter.fail(line, value.type_name() + " has no length");
  return {};
}

Value first_or_last(Meter& meter, const Value& value, const std::string& name, int line) {
  const bool first = name == "first";
  if (const auto* list = value.as_list()) {
    return list->empty() ? Value{} : first ? list->front() : list->back();
  }
  if (const MarkedText* text = value.as_marked()) {
    if (!meter.spend(text->size() / 8)) return {};
    const auto bounds = character_bounds(text->text());
    const std::size_t count = bounds.size() - 1;
    if (count == 0) return {};
    const std::size_t i = first ? 0 : count - 1;
    return text_value(meter, text->slice(bounds[i], bounds[i + 1]));
  }
  meter.fail(line, "cannot apply the filter '" + name + "' to " + value.type_name());
  return {};
}

Value default_of(const Value& value, const Arguments& arguments) {
  const bool replaces_falsy = arguments.get(1, "boolean").truthy();
  if (!value.is_undefined() && (value.truthy() || !replaces_falsy)) return value;
  const Value other = arguments.get(0, "default_value");
  return other.is_undefined() ? Value::text("") : other;
}

Value integer_of(Meter& meter, const Value& value) {
  if (value.as_integer() != nullptr) return value;
  if (value.is_boolean()) return {std::int64_t{value.truthy()}};
  std::int64_t number = 0;
  if (const std::string* text = value.as_text()) {
    if (!meter.spend_bytes(text->size())) return {};
    const char* const end = text->data() + text->size();
    const auto parsed = std::from_chars(text->data(), end, number);
    if (parsed.ec != std::errc() || parsed.ptr != end) number = 0;
  }
  return {number};
}

// Parts of a filter's attribute, "function.name" or "parts.0.text".
std::vector<std::string> attribute_path(Meter& meter, const std::string& attribute) {
  std::vector<std::string> parts(1);
  // Charge before splitting: a template may write any number of dots.
  const auto dots = static_cast<std::size_t>(std::ranges::count(attribute, '.'));
  if (!meter.spend_bytes(attribute.size()) || !meter.spend(dots)) return parts;
  for (const char c : attribute) {
    if (c == '.') {
      parts.emplace_back();
    } else {
      parts.back() += c;
    }
  }
  return parts;
}

// A path part of digits selects a list item, as in Jinja; a mapping's names are not numbers.
Value item_at(Meter& meter, const Value& object, const std::string& digits, int line) {
  if (object.as_text() != nullptr) {
    meter.unsupported(line, "a character of a string as an attribute");
    return {};
  }
  const auto* list = object.as_list();
  std::size_t place = 0;
  const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), place);
  if (list == nullptr || parsed.ec != std::errc() || place >= list->size()) return {};
  return (*list)[place];
}

Value follow(Meter& meter, Value value, const std::vector<std::string>& path, int line) {
  for (const std::string& part : path) {
    if (!meter.spend(1 + part.size() / kBytesPerStep)) return {};
    const bool digits = !part.empty() && part.find_first_not_of("0123456789") == part.npos;
    value = digits && !value.is_undefined() ? item_at(meter, value, part, line)
                                            : attribute_of(meter, value, part, line);
  }
  return value;
}

// select, reject, selectattr and rejectattr: keeps the items that pass, or fail, a test.
Value select(Meter& meter, const std::vector<Value>& items, const std::string& name,
             const Arguments& arguments, int line) {
  const bool wanted = name.starts_with("select");
  std::vector<Value> rest = arguments.positional;
  std::vector<std::string> path;  // to the tested value; empty: the item itself
  if (name.ends_with("attr")) {
    if (rest.empty() || rest[0].as_text() == nullptr) {
      meter.fail(line, "the filter '" + name + "' needs an attribute");
      return {};
    }
    path = attribute_path(meter, *rest[0].as_text());
    rest.erase(rest.begin());
  }
  std::string test;
  if (!rest.empty()) {
    test = rest[0].as_text() == nullptr ? "?" : *rest[0].as_text();
    if (!meter.spend_bytes(test.size())) return {};
    rest.erase(rest.begin());
  }
  const Arguments test_arguments{.positional = std::move(rest), .named = {}};
  std::vector<Value> chosen;
  for (const Value& item : items) {
    if (!meter.spend(1)) return {};
    const Value value = follow(meter, item, path, line);
    const bool passes = test.empty()
                            ? value.truthy()
                            : apply_test(meter, value, test, test_arguments, line).truthy();
    if (passes == wanted) chosen.push_back(item);
  }
  return list_value(meter, line, std::move(chosen));
}

Value map_items(Meter& meter, const std::vector<Value>& items, const Arguments& arguments,
                int line) {
  const Value attribute = arguments.get(static_cast<std::size_t>(-1), "attribute");
  const Value filter = arguments.get(0, "");
  std::vector<std::string> path;
  if (attribute.as_text() != nullptr) path = attribute_path(meter, *attribute.as_text());
  std::vector<Value> mapped;
  for (const Value& item : items) {
    if (!meter.spend(1)) return {};
    if (attribute.as_text() != nullptr) {
      mapped.push_back(follow(meter, item, path, line));
    } else if (filter.as_text() != nullptr && *filter.as_text() != "map") {
      mapped.push_back(apply_filter(meter, item, *filter.as_text(), {}, line));
    } else {
      meter.unsupported(line, "this form of the filter 'map'");
      return {};
    }
  }
  return list_value(meter, line, std::move(mapped));
}

// Filters of lists; nullopt for other names.
std::optional<Value> filter_list(Meter& meter, const std::vector<Value>& items,
                                 const std::string& name, const Arguments& arguments, int line) {
  if (name == "list") return list_value(meter, line, items);
  if (name == "map") return map_items(meter, items, arguments, line);
  if (name == "select" || name == "reject" || name == "selectattr" || name == "rejectattr") {
    return select(meter, items, name, arguments, line);
  }
  if (name == "reverse") {
    return list_value(meter, line, std::vector<Value>(items.rbegin(), items.rend()));
  }
  if (name == "join") {
    const Value separator = arguments.get(0, "d");
    const auto text = printed(meter, separator, line);
    return text ? join(meter, items, *text, line) : Value{};
  }
  return std::nullopt;
}

bool is_list_filter(const std::string& name) {
  constexpr std::string_view kNames[] = {"list", "map",        "select",     "reject",
                                         "join", "selectattr", "rejectattr", "reverse"};
  return std::ranges::find(kNames, name) != std::end(kNames);
}

// Filters of printable values; nullopt for other names.
std::optional<Value> filter_text(Meter& meter, const Value& value, const std::string& name,
                                 const Arguments& arguments, int line) {
  constexpr std::string_view kNames[] = {"trim",  "upper",   "lower",  "capitalize",
                                         "title", "replace", "string", "safe"};
  if (std::ranges::find(kNames, name) == std::end(kNames)) return std::nullopt;
  auto text = printed(meter, value, line);
  if (!text) return Value{};
  const Value whole = text_value(meter, *std::move(text));
  if (meter.error() || name == "string" || name == "safe") return whole;
  if (name == "title") return text_value(meter, change_case(*whole.as_marked(), "words"));
  return call_method(meter, whole, name == "trim" ? "strip" : name, arguments, line);
}

Value compare_test(Meter& meter, const Value& value, const std::string& name, const Value& other,
                   int line) {
  constexpr std::pair<std::string_view, const char*> kOperators[] = {
      {"equalto", "=="}, {"eq", "=="}, {"==", "=="}, {"sameas", "=="}, {"ne", "!="}, {"!=", "!="},
      {"in", "in"},      {"gt", ">"},  {"ge", ">="}, {"lt", "<"},      {"le", "<="}};
  for (const auto& [test, symbol] : kOperators) {
    if (test == name) return apply_binary(meter, symbol, value, other, line);
  }
  meter.unsupported(line, "the test '" + name + "'");
  return {};
}

}  // namespace

Value apply_filter(Meter& meter, const Value& value, const std::string& name,
                   const Arguments& arguments, int line) {
  if (name == "length" || name == "count") return length_of(meter, value, line);
  if (name == "first" || name == "last") return first_or_last(meter, value, name, line);
  if (name == "default" || name == "d") return default_of(value, arguments);
  if (name == "int") return integer_of(meter, value);
  if (name == "tojson") {
    const Value indent = arguments.get(0, "indent");
    return to_json(meter, value, indent.as_integer() == nullptr ? -1 : *indent.as_integer(), line);
  }
  if (name == "items") {
    if (const Map* map = value.as_map()) return items_of(meter, *map, line);
    if (value.is_undefined()) return Value::list({});
    meter.fail(line, value.type_name() + " has no items");
    return {};
  }
  if (is_list_filter(name)) {
    if (value.is_undefined()) return *filter_list(meter, {}, name, arguments, line);
    if (const auto* list = value.as_list()) {
      return *filter_list(meter, *list, name, arguments, line);
    }
    meter.unsupported(line, "the filter '" + name + "' of " + value.type_name());
    return {};
  }
  if (const auto result = filter_text(meter, value, name, arguments, line)) return *result;
  meter.unsupported(line, "the filter '" + name + "'");
  return {};
}

Value apply_test(Meter& meter, const Value& value, const std::string& name,
                 const Arguments& arguments, int line) {
  const bool is_text = value.as_text() != nullptr;
  const bool is_map = value.as_map() != nullptr;
  const std::int64_t* number = value.as_integer();
  if (name == "defined") return {!value.is_undefined()};
  if (name == "undefined") return {value.is_undefined()};
  if (name == "none") return {value.is_none()};
  if (name == "string") return {is_text};
  if (name == "mapping") return {is_map};
  if (name == "sequence") return {is_text || is_map || value.as_list() != nullptr};
  if (name == "iterable") {
    return {is_text || is_map || value.as_list() != nullptr || value.is_undefined()};
  }
  if (name == "boolean") return {value.is_boolean()};
  if (name == "true") return {value.is_boolean() && value.truthy()};
  if (name == "false") return {value.is_boolean() && !value.truthy()};
  if (name == "integer") return {number != nullptr};
  if (name == "number")
    return {number != nullptr || value.is_boolean() || value.as_fraction() != nullptr};
  if (name == "odd" || name == "even") {
    if (number == nullptr) {
      meter.fail(line, "cannot test whether " + value.type_name() + " is " + name);
      return {};
    }
    return {(*number % 2 != 0) == (name == "odd")};
  }
  return compare_test(meter, value, name, arguments.get(0, ""), line);
}

Value attribute_of(Meter& meter, const Value& object, const std::string& name, int line) {
  if (const Map* map = object.as_map()) return member(meter, *map, name);
  if (object.is_undefined()) meter.fail(line, "cannot read '" + name + "' of an undefined value");
  return {};
}

}  // namespace edgedraft::chat
