#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <variant>
#include <vector>

namespace edgedraft::chat {

struct Undefined {};
struct None {};
struct Value;
using List = std::vector<Value>;
using Map = std::map<std::string, Value>;

// A template's value. Immutable, and copied at every step: hence the shared ownership.
struct Value {
  using Text = std::shared_ptr<const std::string>;

  std::variant<Undefined, None, bool, std::int64_t, Text, std::shared_ptr<const List>,
               std::shared_ptr<const Map>>
      held;

  static Value text(std::string text) {
    return {std::make_shared<const std::string>(std::move(text))};
  }
  static Value list(List list) { return {std::make_shared<const List>(std::move(list))}; }
  static Value map(Map map) { return {std::make_shared<const Map>(std::move(map))}; }

  bool is_undefined() const { return std::holds_alternative<Undefined>(held); }
  bool is_none() const { return std::holds_alternative<None>(held); }
  // Null where the value is of another type.
  const std::string* as_text() const { return shared<Text>(); }
  const List* as_list() const { return shared<std::shared_ptr<const List>>(); }
  const Map* as_map() const { return shared<std::shared_ptr<const Map>>(); }
  const std::int64_t* as_integer() const { return std::get_if<std::int64_t>(&held); }

  bool truthy() const;
  std::string type_name() const;

 private:
  template <class Pointer>
  auto shared() const -> decltype(std::declval<Pointer>().get()) {
    const Pointer* pointer = std::get_if<Pointer>(&held);
    return pointer == nullptr ? nullptr : pointer->get();
  }
};

// Python's ==; lists and maps are never equal here.
bool equal(const Value& a, const Value& b);

}  // namespace edgedraft::chat
