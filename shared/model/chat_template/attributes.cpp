#include "shared/model/chat_template/attributes.h"

#include <algorithm>
#include <string_view>

#include "shared/model/chat_template.h"
#include "shared/model/chat_template/operators.h"
#include "shared/model/chat_template/string_operations.h"

namespace edgedraft::chat {
namespace {

constexpr std::string_view kMapMethods[] = {"copy", "get", "items", "keys", "values"};
// Hugging Face's environment lets templates change no list and no mapping.
constexpr std::string_view kForbiddenMapMethods[] = {"clear", "pop", "popitem", "setdefault",
                                                     "update"};
constexpr std::string_view kTextMethods[] = {
    "capitalize", "count",   "endswith",   "find",    "format",       "index",        "isalnum",
    "isalpha",    "isdigit", "islower",    "isspace", "isupper",      "join",         "ljust",
    "lower",      "lstrip",  "partition",  "replace", "removeprefix", "removesuffix", "rfind",
    "rindex",     "rjust",   "rpartition", "rsplit",  "rstrip",       "splitlines",   "split",
    "startswith", "strip",   "swapcase",   "title",   "upper",        "zfill"};
constexpr std::string_view kListMethods[] = {"count", "index"};

template <std::size_t count>
bool is_in(const std::string_view (&names)[count], const std::string& name) {
  return std::ranges::find(names, name) != std::end(names);
}

Value method(Meter& meter, const Value& object, const std::string& name, int line) {
  if (object.depth() >= kTemplateDepthMax) {
    meter.unsupported(line, "a method of a value of that depth");
    return {};
  }
  return Value::function({.name = name, .object = object});
}

}  // namespace

bool is_method_of(const Value& object, const std::string& name) {
  if (object.as_map() != nullptr) {
    return is_in(kMapMethods, name) || is_in(kForbiddenMapMethods, name);
  }
  return object.as_text() != nullptr || object.as_indexed() != nullptr;
}

Value attribute_of(Meter& meter, const Value& object, const std::string& name, int line) {
  if (const Map* map = object.as_map()) {
    if (is_in(kMapMethods, name)) return method(meter, object, name, line);
    return is_in(kForbiddenMapMethods, name) ? Value{} : member(meter, *map, name);
  }
  const bool known = (object.as_text() != nullptr && is_in(kTextMethods, name)) ||
                     (object.as_indexed() != nullptr && is_in(kListMethods, name));
  if (known) return method(meter, object, name, line);
  if (object.is_undefined()) {
    meter.fail(line, "cannot read '" + name + "' of " + object.type_name());
  }
  return {};
}

Value item_of(Meter& meter, const Value& object, const Value& key, int line) {
  if (object.is_undefined()) {
    meter.fail(line, "cannot read an item of " + object.type_name());
    return {};
  }
  const std::string* name = key.as_text();
  if (const Map* map = object.as_map()) {
    const Value found = member(meter, *map, key);
    const bool is_method = name != nullptr && is_in(kMapMethods, *name);
    if (meter.error() || !found.is_undefined() || !is_method) return found;
  }
  if (name != nullptr) return attribute_of(meter, object, *name, line);
  const auto at = number_of(key);
  const auto* list = object.as_indexed();
  const MarkedText* text = object.as_marked();
  if ((list == nullptr && text == nullptr) || !at) return {};
  std::vector<std::size_t> bounds;
  if (text != nullptr) {
    if (!meter.spend(text->size() / 8)) return {};
    bounds = character_bounds(text->text());
  }
  const auto count = static_cast<std::int64_t>(list != nullptr ? list->size() : bounds.size() - 1);
  const std::int64_t i = *at < 0 ? *at + count : *at;
  if (i < 0 || i >= count) return {};
  const auto place = static_cast<std::size_t>(i);
  if (list != nullptr) return (*list)[place];
  Value character = text_value(meter, text->slice(bounds[place], bounds[place + 1]));
  character.is_markup = object.is_markup;
  return character;
}

}  // namespace edgedraft::chat
