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

struct Undefined {
  const std::string* name = nullptr;  // in the template's tree, for errors; null if unknown
};
struct None {};
struct List;
struct Map;
struct Function;
struct Scope;
struct Statement;

// Result of namespace(): the only mutable value. The evaluator holds its members.
struct Namespace {
  std::size_t index;
};

// Python's types of sequences, which differ in what they support.
enum class ListKind : unsigned char {
  list,
  tuple,
  range,
  view,      // dict.items() and the like: not indexed
  iterator,  // a filter's result: always true, without length, read once
};

// A template's value. Immutable and copied at every step, hence the shared ownership.
struct Value {
  using Text = std::shared_ptr<const MarkedText>;

  std::variant<Undefined, None, bool, std::int64_t, double, Text, std::shared_ptr<const List>,
               std::shared_ptr<const Map>, Namespace, std::shared_ptr<const Function>>
      held;
  // A string made by the filters `safe` or `escape`: + then escapes its other operand.
  bool is_markup = false;

  // A text written by the template.
  static Value text(std::string text) { return marked(MarkedText::own(std::move(text))); }
  static Value marked(MarkedText text) {
    return {std::make_shared<const MarkedText>(std::move(text))};
  }
  static Value list(std::vector<Value> items, ListKind kind = ListKind::list);
  static Value map(Map map);
  static Value function(Function function);

  bool is_undefined() const { return std::holds_alternative<Undefined>(held); }
  bool is_none() const { return std::holds_alternative<None>(held); }
  bool is_boolean() const { return std::holds_alternative<bool>(held); }
  // Null for another type.
  const MarkedText* as_marked() const { return shared<Text>(); }
  const std::string* as_text() const;
  // Items of any kind of sequence.
  const std::vector<Value>* as_list() const;
  // Requires  as_list() is not null
  ListKind list_kind() const;
  bool is(ListKind kind) const { return as_list() != nullptr && list_kind() == kind; }
  // Items of a sequence that has indices; null for views and iterators.
  const std::vector<Value>* as_indexed() const;
  // Items, from now on none if this is an iterator.
  const std::vector<Value>& take_items() const;
  const Map* as_map() const { return shared<std::shared_ptr<const Map>>(); }
  const std::int64_t* as_integer() const { return std::get_if<std::int64_t>(&held); }
  const double* as_fraction() const { return std::get_if<double>(&held); }
  const Namespace* as_namespace() const { return std::get_if<Namespace>(&held); }
  const Function* as_function() const { return shared<std::shared_ptr<const Function>>(); }

  bool truthy() const;
  std::string type_name() const;
  // Nesting depth of lists, mappings and methods of values; 0 for other types.
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
  ListKind kind = ListKind::list;
  std::size_t depth = 1;
  mutable bool is_read = false;  // an iterator's
};

// A built-in function, a method of a value or a macro.
struct Function {
  std::string name;
  Value object{};                    // a method's; undefined for others
  const Statement* macro = nullptr;  // a macro or the body of {% call %}
  Scope* scope = nullptr;            // in which the macro was defined
};

// Keys, which are strings or integers, and values in order of insertion. Keys are marked too: they
// come from the template or from an untrusted client.
struct Map {
  std::vector<std::pair<Value, Value>> entries;
  std::size_t depth = 1;

  Map() = default;
  Map(std::initializer_list<std::pair<std::string, Value>> list);
  // Null if missing. Linear search.
  const Value* find(std::string_view name) const;
  const Value* find(std::int64_t number) const;
  // Null also if the key is neither a string nor an integer.
  const Value* find(const Value& key) const;
  // Replaces the value of an equal key and keeps its position, as in Python.
  // Requires  a string or an integer
  void set(Value key, Value value);
  void set(std::string name, Value value) { set(Value::text(std::move(name)), std::move(value)); }
};

// An integer, or a boolean as 0 or 1, as in Python; nullopt for other values.
std::optional<std::int64_t> number_of(const Value& value);

// Also of a fraction.
std::optional<double> fraction_of(const Value& value);

// Arguments of a function, method, filter or test.
struct Arguments {
  std::vector<Value> positional;
  std::vector<std::pair<std::string, Value>> named;

  std::size_t count() const { return positional.size() + named.size(); }
  // Argument `i`, or the one of that name; null if missing.
  const Value* find(std::size_t i, std::string_view name) const {
    if (i < positional.size()) return &positional[i];
    const auto found = std::find_if(named.begin(), named.end(),
                                    [name](const auto& entry) { return entry.first == name; });
    return found == named.end() ? nullptr : &found->second;
  }
  // As above; undefined if missing.
  Value get(std::size_t i, std::string_view name) const {
    const Value* const found = find(i, name);
    return found == nullptr ? Value{} : *found;
  }
};

}  // namespace edgedraft::chat
