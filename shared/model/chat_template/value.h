#pragma once

#include <algorithm>
#include <cstdint>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

#include "shared/model/marked_text.h"

namespace edgedraft::chat {

struct Undefined {};
struct None {};
struct List;
struct Map;

// Result of namespace(): the only mutable value. The evaluator holds its members.
struct Namespace {
  std::size_t index;
};

// A template's value. Immutable and copied at every step, hence the shared ownership.
struct Value {
  using Text = std::shared_ptr<const MarkedText>;

  // Fractions come from JSON; no arithmetic on them.
  std::variant<Undefined, None, bool, std::int64_t, double, Text, std::shared_ptr<const List>,
               std::shared_ptr<const Map>, Namespace>
      held;

  // A text written by the template.
  static Value text(std::string text) { return marked(MarkedText::own(std::move(text))); }
  static Value marked(MarkedText text) {
    return {std::make_shared<const MarkedText>(std::move(text))};
  }
  static Value list(std::vector<Value> items);
  static Value map(Map map);

  bool is_undefined() const { return std::holds_alternative<Undefined>(held); }
  bool is_none() const { return std::holds_alternative<None>(held); }
  bool is_boolean() const { return std::holds_alternative<bool>(held); }
  // Null for another type.
  const MarkedText* as_marked() const { return shared<Text>(); }
  const std::string* as_text() const;
  const std::vector<Value>* as_list() const;
  const Map* as_map() const { return shared<std::shared_ptr<const Map>>(); }
  const std::int64_t* as_integer() const { return std::get_if<std::int64_t>(&held); }
  const double* as_fraction() const { return std::get_if<double>(&held); }
  const Namespace* as_namespace() const { return std::get_if<Namespace>(&held); }

  bool truthy() const;
  std::string type_name() const;
  // Nesting depth of lists and mappings; 0 for other types.
  std::size_t depth() const;

 private:
  template <class Pointer>
  auto shared() const -> decltype(std::declval<Pointer>().get()) {
    const Pointer* pointer = std::get_if<Pointer>(&held);
    return pointer == nullptr ? nullptr : pointer->get();
  }
};

struct List {
  std::vector<Value> items;
  std::size_t depth = 1;
};

// Names and values in order of insertion. Names are marked too: they come from the template or from
// an untrusted client.
struct Map {
  std::vector<std::pair<MarkedText, Value>> entries;
  std::size_t depth = 1;

  Map() = default;
  Map(std::initializer_list<std::pair<std::string, Value>> list);
  // Null if missing. Linear search.
  const Value* find(std::string_view name) const;
  // Replaces the value of an equal name and keeps its position, as in Python.
  void set(MarkedText name, Value value);
  void set(std::string name, Value value) {
    set(MarkedText::own(std::move(name)), std::move(value));
  }
};

// An integer, or a boolean as 0 or 1, as in Python; nullopt for other values.
std::optional<std::int64_t> number_of(const Value& value);

// Arguments of a function, method, filter or test.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  std::size_t count() const { return positional.size() + named.size(); }
  // Argument `i`, or the one of that name; undefined if missing.
  Value get(std::size_t i, std::string_view name) const {
    if (i < positional.size()) return positional[i];
    const auto found = std::find_if(named.begin(), named.end(),
                                    [name](const auto& entry) { return entry.first == name; });
    return found == named.end() ? Value{} : found->second;
  }
};

}  // namespace edgedraft::chat
