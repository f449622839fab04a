#include "shared/model/chat_template/methods.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "shared/model/chat_template.h"
#include "shared/model/chat_template/brace_format.h"
#include "shared/model/chat_template/operators.h"
#include "shared/model/chat_template/printing.h"
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

Value texts_value(Meter& meter, std::vector<MarkedText> texts, int line,
                  ListKind kind = ListKind::list) {
  std::vector<Value> values;
  for (MarkedText& text : texts) values.push_back(text_value(meter, std::move(text)));
  return list_value(meter, line, std::move(values), kind);
}

// Reads an argument that is a number; `fallback` if it is missing.
std::optional<std::int64_t> number_argument(Meter& meter, const Arguments& arguments, std::size_t i,
                                            std::string_view name, std::int64_t fallback,
                                            int line) {
  const Value* const given = arguments.find(i, name);
  if (given == nullptr) return fallback;
  const auto number = number_of(*given);
  if (!number) meter.fail(line, "an argument is " + given->type_name() + ", not a number");
  return number;
}

// split and rsplit
Value split_text(Meter& meter, const MarkedText& text, const std::string& name,
                 const Arguments& arguments, int line) {
  const Value separator = arguments.get(0, "sep");
  const auto limit = number_argument(meter, arguments, 1, "maxsplit", -1, line);
  const bool at_spaces = separator.is_undefined() || separator.is_none();
  const std::string* part = separator.as_text();
  if ((part == nullptr || part->empty()) && !at_spaces) {
    meter.fail(line, name + "() needs a nonempty string as its separator");
    return {};
  }
  const bool from_right = name == "rsplit" && limit && *limit >= 0;
  if (from_right && at_spaces) {
    meter.unsupported(line, "rsplit() at white space with a limit");
    return {};
  }
  const bool paid =
      at_spaces ? meter.spend(text.size() / 2) : spend_on_cuts(meter, text.text(), *part);
  if (!paid || !limit) return {};
  if (from_right) return texts_value(meter, split_right(text, *part, *limit), line);
  return texts_value(meter, split(text, at_spaces ? std::string_view() : *part, *limit), line);
}

// The text before a separator, the separator and the text after it.
Value partition(Meter& meter, const MarkedText& text, const std::string& name,
                const Value& separator, int line) {
  const std::string* part = separator.as_text();
  if (part == nullptr || part->empty()) {
    meter.fail(line, "." + name + "() needs a nonempty string as its separator");
    return {};
  }
  if (!spend_on_search(meter, text.text(), *part)) return {};
  const bool first = name == "partition";
  const std::size_t at = first ? text.text().find(*part) : text.text().rfind(*part);
  if (at == std::string::npos) {
    return texts_value(meter,
                       first ? std::vector{text, MarkedText(), MarkedText()}
                             : std::vector{MarkedText(), MarkedText(), text},
                       line, ListKind::tuple);
  }
  const std::size_t end = at + part->size();
  return texts_value(meter, {text.slice(0, at), text.slice(at, end), text.slice(end, text.size())},
                     line, ListKind::tuple);
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

// startswith and endswith: of a string or any of a tuple's.
Value begins_or_ends(Meter& meter, const std::string& text, const std::string& name,
                     const Value& part, int line) {
  const std::vector<Value> one = {part};
  for (const Value& item : part.is(ListKind::tuple) ? *part.as_list() : one) {
    const std::string* expected = item.as_text();
    if (expected == nullptr) {
      meter.fail(line, "the argument of ." + name + "() is " + item.type_name() + ", not a string");
      return {};
    }
    if (!meter.spend(1 + expected->size() / kBytesPerStep)) return {};
    if (name == "startswith" ? text.starts_with(*expected) : text.ends_with(*expected)) {
      return {true};
    }
  }
  return {false};
}

// find, rfind, index, rindex and count
Value find_text(Meter& meter, const std::string& text, const std::string& name, const Value& sought,
                int line) {
  const std::string* part = sought.as_text();
  if (part == nullptr || (part->empty() && name == "count")) {
    meter.fail(line, "the argument of ." + name + "() is not a nonempty string");
    return {};
  }
  if (!spend_on_search(meter, text, *part) || !meter.spend_bytes(text.size())) return {};
  if (name == "count") {
    std::int64_t count = 0;
    for (std::size_t at = 0; (at = text.find(*part, at)) != text.npos; at += part->size()) ++count;
    return {count};
  }
  const std::size_t at = name.starts_with('r') ? text.rfind(*part) : text.find(*part);
  if (at != text.npos) return {character_count(std::string_view(text).substr(0, at))};
  if (name.ends_with("index")) meter.fail(line, "." + name + "() finds no '" + *part + "'");
  return {std::int64_t{-1}};
}

Value replace_text(Meter& meter, const MarkedText& text, const Arguments& arguments, int line) {
  const Value from = arguments.get(0, "old");
  const Value to = arguments.get(1, "new");
  const Value* const limit = arguments.find(2, "count");
  const std::string* old = from.as_text();
  const MarkedText* fresh = to.as_marked();
  if (old == nullptr || fresh == nullptr || old->empty()) {
    meter.fail(line, "cannot replace " + from.type_name() + " by " + to.type_name());
    return {};
  }
  const auto count = limit == nullptr || limit->is_none() ? std::int64_t{-1} : number_of(*limit);
  if (!count) meter.fail(line, "the count of replace() is not a number");
  if (meter.error() || !spend_on_cuts(meter, text.text(), *old)) return {};
  std::vector<Value> parts;
  for (MarkedText& part : split(text, *old, *count)) {
    parts.push_back(Value::marked(std::move(part)));
  }
  return join(meter, parts, *fresh, line);
}

// ljust, rjust and zfill
Value justify(Meter& meter, const MarkedText& text, const std::string& name,
              const Arguments& arguments, int line) {
  constexpr std::int64_t kWidthMax = 4096;
  const auto width = number_argument(meter, arguments, 0, "width", 0, line);
  const Value* const filler = arguments.find(1, "fillchar");
  const MarkedText fill =
      filler != nullptr && filler->as_marked() ? *filler->as_marked() : MarkedText::own(" ");
  if (!width || *width > kWidthMax || character_count(fill.text()) != 1) {
    meter.unsupported(line, "." + name + "() with these arguments");
    return {};
  }
  if (!meter.spend(kWidthMax / kBytesPerStep)) return {};
  const auto size = static_cast<std::size_t>(std::max<std::int64_t>(*width, 0));
  if (name == "zfill") {
    const bool is_signed = text.text().starts_with('-') || text.text().starts_with('+');
    MarkedText out = text.slice(0, is_signed ? 1 : 0);
    out.append(pad(text.slice(out.size(), text.size()), size - std::min(size, out.size()), '>',
                   MarkedText::own("0")));
    return text_value(meter, std::move(out));
  }
  return text_value(meter, pad(text, size, name == "ljust" ? '<' : '>', fill));
}

Value remove_affix(Meter& meter, const MarkedText& text, const std::string& name,
                   const Value& affix, int line) {
  const bool has_affix =
      begins_or_ends(meter, text.text(), name == "removeprefix" ? "startswith" : "endswith", affix,
                     line)
          .truthy();
  if (meter.error() || !has_affix || affix.as_text() == nullptr) {
    return text_value(meter, text);
  }
  const std::size_t size = affix.as_text()->size();
  if (name == "removeprefix") return text_value(meter, text.slice(size, text.size()));
  return text_value(meter, text.slice(0, text.size() - size));
}

Value call_text_method(Meter& meter, const MarkedText& text, const std::string& name,
                       const Arguments& arguments, int line) {
  const Value first = arguments.get(0, "");
  if (name == "strip" || name == "lstrip" || name == "rstrip") {
    const Strip ends = name == "strip"    ? Strip::both
                       : name == "lstrip" ? Strip::left
                                          : Strip::right;
    return strip_text(meter, text, ends, arguments.get(0, "chars"), line);
  }
  if (name == "upper" || name == "lower" || name == "capitalize" || name == "title" ||
      name == "swapcase") {
    return text_value(meter, change_case(text, name));
  }
  if (name == "startswith" || name == "endswith") {
    return begins_or_ends(meter, text.text(), name, first, line);
  }
  if (name == "split" || name == "rsplit") return split_text(meter, text, name, arguments, line);
  if (name == "splitlines") {
    if (!meter.spend(text.size())) return {};
    return texts_value(meter, split_lines(text, arguments.get(0, "keepends").truthy()), line);
  }
  if (name == "partition" || name == "rpartition") {
    return partition(meter, text, name, first, line);
  }
  if (name == "replace") return replace_text(meter, text, arguments, line);
  if (name == "removeprefix" || name == "removesuffix") {
    return remove_affix(meter, text, name, first, line);
  }
  if (name == "find" || name == "rfind" || name == "index" || name == "rindex" || name == "count") {
    return find_text(meter, text.text(), name, first, line);
  }
  if (name == "ljust" || name == "rjust" || name == "zfill") {
    return justify(meter, text, name, arguments, line);
  }
  if (name == "isalpha" || name == "isdigit" || name == "isalnum" || name == "isspace" ||
      name == "islower" || name == "isupper") {
    return {meter.spend(text.size() / 8) && is_of_class(text.text(), name)};
  }
  if (name == "format") return brace_format(meter, text, arguments, line);
  if (name == "join") {
    const auto items = items_to_read(meter, first, line);
    if (!items) return {};
    for (const Value& item : *items) {
      if (item.as_text() != nullptr) continue;
      meter.fail(line, ".join() of " + item.type_name() + "; apply the filter 'join' instead");
      return {};
    }
    return join(meter, *items, text, line);
  }
  meter.unsupported(line, "the method ." + name + "() of a string");
  return {};
}

// A method of a string that escapes what it adds to it.
Value call_markup_method(Meter& meter, const MarkedText& text, const std::string& name,
                         Arguments arguments, int line) {
  if (name == "format" || name == "join") {
    meter.unsupported(line, "." + name + "() of an escaped string");
    return {};
  }
  const bool escapes = name == "replace" || name.ends_with("strip") || name.ends_with("just");
  for (Value& argument : arguments.positional) {
    if (!escapes || argument.as_text() == nullptr || argument.is_markup) continue;
    argument = text_value(meter, escape_html(*argument.as_marked()));
  }
  Value result = call_text_method(meter, text, name, arguments, line);
  if (result.as_list() != nullptr) meter.unsupported(line, "." + name + "() of an escaped string");
  result.is_markup = result.as_text() != nullptr;
  return result;
}

Value call_map_method(Meter& meter, const Value& object, const std::string& name,
                      const Arguments& arguments, int line) {
  const Map& map = *object.as_map();
  if (name == "items") return items_of(meter, map, ListKind::view, line);
  if (name == "copy") return object;
  if (name == "keys" || name == "values") {
    std::vector<Value> list;
    for (const auto& [key, value] : map.entries) {
      list.push_back(name == "keys" ? key : value);
    }
    return list_value(meter, line, std::move(list), ListKind::view);
  }
  if (name == "get") {
    if (arguments.positional.empty() || !arguments.named.empty()) {
      meter.fail(line, ".get() needs a key, and a default without a name");
      return {};
    }
    const Value found = member(meter, map, arguments.positional[0]);
    if (!found.is_undefined()) return found;
    return arguments.count() > 1 ? arguments.positional[1] : Value{None{}};
  }
  meter.fail(line, "the method ." + name + "() is forbidden: templates must not change mappings");
  return {};
}

Value call_list_method(Meter& meter, const Value& object, const std::string& name,
                       const Arguments& arguments, int line) {
  if (name != "index" && name != "count") {
    meter.fail(line, "the method ." + name +
                         "() is unknown, or forbidden because templates must "
                         "not change lists");
    return {};
  }
  const Value sought = arguments.get(0, "");
  const auto& items = *object.as_list();
  std::int64_t count = 0;
  for (std::size_t i = 0; i < items.size() && !meter.error(); ++i) {
    if (!apply_comparison(meter, "==", items[i], sought, line)) continue;
    if (name == "index") return {static_cast<std::int64_t>(i)};
    ++count;
  }
  if (name == "index") meter.fail(line, ".index() finds no such item");
  return {count};
}

// Maximum arguments of a method.
std::size_t argument_count_max(const std::string& name) {
  if (name == "format") return kTemplateStepsMax;
  if (name == "replace") return 3;
  if (name == "split" || name == "rsplit" || name == "get" || name.ends_with("just")) return 2;
  constexpr std::string_view kNone[] = {"upper", "lower",  "capitalize", "title",   "items",
                                        "keys",  "values", "copy",       "swapcase"};
  const bool takes_none =
      name.starts_with("is") || std::ranges::find(kNone, name) != std::end(kNone);
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
    if (object.is_markup) return call_markup_method(meter, *text, name, arguments, line);
    return call_text_method(meter, *text, name, arguments, line);
  }
  if (object.as_map() != nullptr) return call_map_method(meter, object, name, arguments, line);
  return call_list_method(meter, object, name, arguments, line);
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

Value items_of(Meter& meter, const Map& map, ListKind kind, int line) {
  std::vector<Value> pairs;
  for (const auto& [name, value] : map.entries) {
    pairs.push_back(list_value(meter, line, {name, value}, ListKind::tuple));
  }
  return list_value(meter, line, std::move(pairs), kind);
}

}  // namespace edgedraft::chat
