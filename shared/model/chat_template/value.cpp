#include "shared/model/chat_template/value.h"

namespace edgedraft::chat {

std::optional<std::int64_t> number_of(const Value& value) {
  if (const auto* flag = std::get_if<bool>(&value.held)) return *flag ? 1 : 0;
  if (const auto* number = value.as_integer()) return *number;
  return std::nullopt;
}

std::optional<double> fraction_of(const Value& value) {
  if (const double* fraction = value.as_fraction()) return *fraction;
  if (const auto number = number_of(value)) return static_cast<double>(*number);
  return std::nullopt;
}

Value Value::list(std::vector<Value> items, ListKind kind) {
  List list{.items = std::move(items), .kind = kind};
  for (const Value& item : list.items) list.depth = std::max(list.depth, item.depth() + 1);
  return {std::make_shared<const List>(std::move(list))};
}

Value Value::map(Map map) {
  return {std::make_shared<const Map>(std::move(map))};
}

Value Value::function(Function function) {
  return {std::make_shared<const Function>(std::move(function))};
}

const std::string* Value::as_text() const {
  const MarkedText* text = as_marked();
  return text == nullptr ? nullptr : &text->text();
}

const std::vector<Value>* Value::as_list() const {
  const List* list = shared<std::shared_ptr<const List>>();
  return list == nullptr ? nullptr : &list->items;
}

ListKind Value::list_kind() const {
  return shared<std::shared_ptr<const List>>()->kind;
}

const std::vector<Value>* Value::as_indexed() const {
  return is(ListKind::view) || is(ListKind::iterator) ? nullptr : as_list();
}

const std::vector<Value>& Value::take_items() const {
  static const std::vector<Value> kNone;
  const List& list = *shared<std::shared_ptr<const List>>();
  if (list.kind != ListKind::iterator) return list.items;
  return std::exchange(list.is_read, true) ? kNone : list.items;
}

bool Value::truthy() const {
  if (const auto number = number_of(*this)) return *number != 0;
  if (const double* fraction = as_fraction()) return *fraction != 0.0;
  if (const std::string* text = as_text()) return !text->empty();
  if (const auto* list = as_list()) return is(ListKind::iterator) || !list->empty();
  if (const Map* map = as_map()) return !map->entries.empty();
  return as_namespace() != nullptr || as_function() != nullptr;
}

std::string Value::type_name() const {
  static constexpr const char* kNames[] = {
      "an undefined value", "none",   "a boolean", "a number",    "a fraction",
      "a string",           "a list", "a mapping", "a namespace", "a function"};
  const auto* undefined = std::get_if<Undefined>(&held);
  if (undefined != nullptr && undefined->name != nullptr) {
    return "an undefined value ('" + *undefined->name + "')";
  }
  if (is(ListKind::tuple)) return "a tuple";
  if (is(ListKind::range)) return "a range (apply 'list' to it)";
  if (is(ListKind::view)) return "a view of a mapping (apply 'list' to it)";
  if (is(ListKind::iterator)) return "a filter's result (apply 'list' to it)";
  return kNames[held.index()];
}

std::size_t Value::depth() const {
  if (const List* list = shared<std::shared_ptr<const List>>()) return list->depth;
  if (const Map* map = as_map()) return map->depth;
  if (const Function* function = as_function()) return function->object.depth() + 1;
  return 0;
}

Map::Map(std::initializer_list<std::pair<std::string, Value>> list) {
  for (const auto& [name, value] : list) set(name, value);
}

const Value* Map::find(std::string_view name) const {
  const auto found = std::find_if(entries.begin(), entries.end(), [name](const auto& entry) {
    const std::string* text = entry.first.as_text();
    return text != nullptr && *text == name;
  });
  return found == entries.end() ? nullptr : &found->second;
}

const Value* Map::find(std::int64_t number) const {
  const auto found = std::find_if(entries.begin(), entries.end(), [number](const auto& entry) {
    return entry.first.as_integer() != nullptr && *entry.first.as_integer() == number;
  });
  return found == entries.end() ? nullptr : &found->second;
}

const Value* Map::find(const Value& key) const {
  if (const std::string* name = key.as_text()) return find(*name);
  const auto number = number_of(key);
  return number ? find(*number) : nullptr;
}

void Map::set(Value key, Value value) {
  depth = std::max(depth, value.depth() + 1);
  const Value* const found = find(key);
  if (found == nullptr) {
    entries.emplace_back(std::move(key), std::move(value));
    return;
  }
  const auto same = [found](const auto& entry) { return &entry.second == found; };
  std::find_if(entries.begin(), entries.end(), same)->second = std::move(value);
}

}  // namespace edgedraft::chat
