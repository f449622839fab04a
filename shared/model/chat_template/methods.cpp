#include "shared/model/chat_template/methods.h"

#include "shared/model/chat_template.h"
#include "shared/model/chat_template/operators.h"
#include "shared/model/chat_template/string_operations.h"

namespace edgedraft::chat {
namespace {

// Charges for splitting `text` at each `part`, which may occur at every byte.
bool spend_on_cuts(Meter& meter, std::string_view text, std::string_view part) {
  if (!spend_on_search(meter, text, part)) return false;
  std::size_t count = 0;
  for (std::size_t at = 0; (at = text.find(part, at)) != text.npos; at += part.size()) {
    if (++count > kTemplateStepsMax) break;
  }
  return meter.spend(count);
}

Value split_text(Meter& meter, const MarkedText& text, const Arguments& arguments, int line) {
  const Value separator = arguments.get(0, "sep");
  const Value limit = arguments.get(1, "maxsplit");
  const bool at_spaces = separator.is_undefined() || separator.is_none();
  const std::string* part = separator.as_text();
  if ((part == nullptr || part->empty()) && !at_spaces) {
    meter.fail(line, "split() needs a nonempty string as its separator");
    return {};
  }
  if (!limit.is_undefined() && limit.as_integer() == nullptr) {
    meter.fail(line, "the limit of split() is " + limit.type_name() + ", not a number");
    return {};
  }
  const bool paid =
      at_spaces ? meter.spend(text.size() / 2) : spend_on_cuts(meter, text.text(), *part);
  if (!paid) return {};
  std::vector<Value> parts;
  for (MarkedText& piece : split(text, at_spaces ? std::string_view() : *part,
                                 limit.as_integer() == nullptr ? -1 : *limit.as_integer())) {
    parts.push_back(text_value(meter, std::move(piece)));
  }
  return list_value(meter, line, std::move(parts));
}

Value strip_text(Meter& meter, const MarkedText& text, Strip ends, const Value& characters,
                 int line) {
  std::optional<std::string_view> set;
  if (const std::string* given = characters.as_text()) {
    set = *given;
  } else if (!characters.is_undefined() && !characters.is_none()) {
    meter.fail(line, "the argument of strip() is " + characters.type_name() + ", not a string");
    return {};
  }
  const std::size_t rounds = set ? set->size() / kBytesPerStep + 1 : 1;
  if (!meter.spend((text.size() / kBytesPerStep + 1) * rounds)) return {};
  return text_value(meter, strip(text, ends, set));
}

Value begins_or_ends(Meter& meter, const std::string& text, const std::string& name,
                     const Value& part, int line) {
  const std::string* expected = part.as_text();
  if (expected == nullptr) {
    meter.fail(line, "the argument of ." + name + "() is " + part.type_name() + ", not a string");
    return {};
  }
  if (!meter.spend_bytes(expected->size())) return {};
  return {name == "startswith" ? text.starts_with(*expected) : text.ends_with(*expected)};
}

Value call_text_method(Meter& meter, const MarkedText& text, const std::string& name,
                       const Arguments& arguments, int line) {
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    const Strip ends = name == "strip"    ? Strip::both
                       : name == "lstrip" ? Strip::left
                                          : Strip::right;
    return strip_text(meter, text, ends, arguments.get(0, "chars"), line);
  }
  if (name == "upper" || name == "lower" || name == "capitalize" || name == "title") {
    return text_value(meter, change_case(text, name));
  }
  if (name == "startswith" || name == "endswith") {
    return begins_or_ends(meter, text.text(), name, arguments.get(0, ""), line);
  }
  if (name == "split") return split_text(meter, text, arguments, line);
  if (name == "replace") {
    return replace_text(meter, text, arguments.get(0, ""), arguments.get(1, ""), line);
  }
  if (name == "join") {
    const Value list = arguments.get(0, "");
    if (const auto* items = list.as_list()) return join(meter, *items, text, line);
    meter.fail(line, "the argument of .join() is " + list.type_name() + ", not a list");
    return {};
  }
  meter.unsupported(line, "the method ." + name + "()");
  return {};
}

Value call_map_method(Meter& meter, const Map& map, const std::string& name,
                      const Arguments& arguments, int line) {
  if (name == "items") return items_of(meter, map, line);
  if (name == "keys" || name == "values") {
    std::vector<Value> list;
    for (const auto& [key, value] : map.entries) {
      list.push_back(name == "keys" ? text_value(meter, key) : value);
    }
    return list_value(meter, line, std::move(list));
  }
  if (name == "get") {
    const Value key = arguments.get(0, "");
    const Value found = key.as_text() == nullptr ? Value{} : member(meter, map, *key.as_text());
    if (!found.is_undefined()) return found;
    return arguments.count() > 1 ? arguments.get(1, "default") : Value{None{}};
  }
  meter.unsupported(line, "the method ." + name + "()");
  return {};
}

// Maximum arguments of a method.
std::size_t argument_count_max(const std::string& name) {
  if (name == "split" || name == "replace" || name == "get") return 2;
  const bool takes_none = name == "upper" || name == "lower" || name == "capitalize" ||
                          name == "title" || name == "items" || name == "keys" || name == "values";
  return takes_none ? 0 : 1;
}

}  // namespace

Value call_method(Meter& meter, const Value& object, const std::string& name,
                  const Arguments& arguments, int line) {
  if (arguments.count() > argument_count_max(name)) {
    meter.unsupported(line, "." + name + "() with that many arguments");
    return {};
  }
  if (const MarkedText* text = object.as_marked()) {
    return call_text_method(meter, *text, name, arguments, line);
  }
  if (const Map* map = object.as_map()) return call_map_method(meter, *map, name, arguments, line);
  meter.fail(line, object.type_name() + " has no method ." + name + "()");
  return {};
}

Value join(Meter& meter, const std::vector<Value>& items, const MarkedText& separator, int line) {
  MarkedText joined;
  for (std::size_t i = 0; i < items.size(); ++i) {
    const auto item = printed(meter, items[i], line);
    const std::size_t gap = i == 0 ? 0 : separator.size();
    if (!item || !meter.spend_bytes(item->size() + gap + kBytesPerStep)) return {};
    if (i > 0) joined.append(separator);
    joined.append(*item);
    if (joined.size() > kTemplateOutputBytesMax) break;  // text_value() refuses it
  }
  return text_value(meter, std::move(joined));
}

Value replace_text(Meter& meter, const MarkedText& text, const Value& from, const Value& to,
                   int line) {
  const std::string* old = from.as_text();
  const MarkedText* fresh = to.as_marked();
  if (old == nullptr || fresh == nullptr || old->empty()) {
    meter.fail(line, "cannot replace " + from.type_name() + " by " + to.type_name());
    return {};
  }
  if (!spend_on_cuts(meter, text.text(), *old)) return {};
  std::vector<Value> parts;
  for (MarkedText& part : split(text, *old, -1)) parts.push_back(Value::marked(std::move(part)));
  return join(meter, parts, *fresh, line);
}

Value items_of(Meter& meter, const Map& map, int line) {
  std::vector<Value> pairs;
  for (const auto& [name, value] : map.entries) {
    pairs.push_back(list_value(meter, line, {text_value(meter, name), value}));
  }
  return list_value(meter, line, std::move(pairs));
}

}  // namespace edgedraft::chat
