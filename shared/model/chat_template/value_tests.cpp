#include "shared/model/chat_template/value_tests.h"

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "shared/model/chat_template/operators.h"
#include "shared/model/chat_template/printing.h"
#include "shared/model/chat_template/string_operations.h"

namespace edgedraft::chat {
namespace {

// Tests of a value's type; nullopt for other names.
std::optional<bool> type_test(const Value& value, const std::string& name) {
  const bool is_text = value.as_text() != nullptr;
  const bool is_map = value.as_map() != nullptr;
  const bool is_integer = value.as_integer() != nullptr;
  const bool is_fraction = value.as_fraction() != nullptr;
  if (name == "defined") return !value.is_undefined();
  if (name == "undefined") return value.is_undefined();
  if (name == "none") return value.is_none();
  if (name == "string") return is_text;
  if (name == "mapping") return is_map;
  if (name == "sequence") return is_text || is_map || value.as_indexed() || value.is_undefined();
  if (name == "iterable") return is_text || is_map || value.as_list() || value.is_undefined();
  if (name == "callable") return value.as_function() != nullptr || value.is_undefined();
  if (name == "boolean") return value.is_boolean();
  if (name == "true") return value.is_boolean() && value.truthy();
  if (name == "false") return value.is_boolean() && !value.truthy();
  if (name == "integer") return is_integer;
  if (name == "float") return is_fraction;
  if (name == "number") return is_integer || is_fraction || value.is_boolean();
  if (name == "escaped") return value.is_markup;
  return std::nullopt;
}

// True if Python would have one object for both, as far as values show it.
bool is_same(Meter& meter, const Value& a, const Value& b, int line) {
  return a.held.index() == b.held.index() && apply_comparison(meter, "==", a, b, line);
}

// odd, even and divisibleby
Value divisor_test(Meter& meter, const Value& value, const std::string& name, const Value& divisor,
                   int line) {
  const Value rest = arithmetic(meter, "%", value, divisor, line);
  if (meter.error()) return {};
  return {apply_comparison(meter, "==", rest, {std::int64_t{name == "odd"}}, line)};
}

}  // namespace

Value apply_test(Meter& meter, const Value& value, const std::string& name,
                 const Arguments& arguments, int line) {
  if (const auto result = type_test(value, name)) return {*result};
  const Value other = arguments.get(0, "other");
  if (name == "odd" || name == "even") {
    return divisor_test(meter, value, name, {std::int64_t{2}}, line);
  }
  if (name == "divisibleby") return divisor_test(meter, value, name, other, line);
  if (name == "lower" || name == "upper") {
    const auto text = printed(meter, value, line);
    return {text && is_of_class(text->text(), "is" + name)};
  }
  if (name == "sameas") return {is_same(meter, value, other, line)};
  constexpr std::pair<std::string_view, const char*> kOperators[] = {
      {"equalto", "=="},    {"eq", "=="},      {"==", "=="}, {"ne", "!="},
      {"!=", "!="},         {"in", "in"},      {"gt", ">"},  {">", ">"},
      {"greaterthan", ">"}, {"ge", ">="},      {">=", ">="}, {"lt", "<"},
      {"<", "<"},           {"lessthan", "<"}, {"le", "<="}, {"<=", "<="}};
  for (const auto& [test, symbol] : kOperators) {
    if (test == name) return {apply_comparison(meter, symbol, value, other, line)};
  }
  meter.unsupported(line, "the test '" + name + "'");
  return {};
}

}  // namespace edgedraft::chat
