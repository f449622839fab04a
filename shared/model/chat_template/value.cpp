#include "shared/model/chat_template/value.h"

#include <optional>

namespace edgedraft::chat {
namespace {

// Booleans count as 0 and 1, as in Python.
std::optional<std::int64_t> number_of(const Value& value) {
  if (const auto* flag = std::get_if<bool>(&value.held)) return *flag ? 1 : 0;
  if (const auto* number = value.as_integer()) return *number;
  return std::nullopt;
}

}  // namespace

bool Value::truthy() const {
  if (const auto number = number_of(*this)) return *number != 0;
  if (const std::string* text = as_text()) return !text->empty();
  if (const List* list = as_list()) return !list->empty();
  if (const Map* map = as_map()) return !map->empty();
  return false;
}

std::string Value::type_name() const {
  static constexpr const char* kNames[] = {"an undefined value", "none",   "a boolean", "a number",
                                           "a string",           "a list", "a mapping"};
  return kNames[held.index()];
}

bool equal(const Value& a, const Value& b) {
  const auto x = number_of(a);
  const auto y = number_of(b);
  if (x && y) return *x == *y;
  if (a.as_text() != nullptr && b.as_text() != nullptr) return *a.as_text() == *b.as_text();
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

}  // namespace edgedraft::chat
