#include <algorithm>
#include <utility>

#include "shared/model/chat_template/evaluator.h"
#include "shared/model/chat_template/filters.h"
#include "shared/model/chat_template/operators.h"
#include "shared/model/chat_template/string_operations.h"
#include "shared/model/chat_template/value_tests.h"

// The evaluator's expressions.
namespace edgedraft::chat {

Value Evaluator::evaluate(const Expression& expression) {
  using Kind = Expression::Kind;
  const Temporary level(level_, deeper(expression.line));
  if (!meter_.spend(1)) return {};
  const int line = expression.line;
  switch (expression.kind) {
    case Kind::literal:
      return expression.value;
    case Kind::variable:
      return variables_.lookup(expression.text);
    case Kind::captured:
      return captured_;
    case Kind::attribute:
      return variables_.attribute(evaluate(*expression.parts[0]), expression.text, line);
    case Kind::index: {
      const Value object = evaluate(*expression.parts[0]);
      return variables_.index(object, evaluate(*expression.parts[1]), line);
    }
    case Kind::slice:
      return slice(expression);
    case Kind::call:
      return call(expression, nullptr);
    case Kind::list:
      return list_value(meter_, line, arguments(expression, 0).positional);
    case Kind::tuple:
      return list_value(meter_, line, arguments(expression, 0).positional, ListKind::tuple);
    case Kind::map:
      return make_map(expression);
    case Kind::binary:
      return binary(expression);
    case Kind::comparison:
      return compare(expression);
    default:
      return evaluate_operation(expression);
  }
}

// Kinds that apply something to parts[0].
Value Evaluator::evaluate_operation(const Expression& expression) {
  using Kind = Expression::Kind;
  const int line = expression.line;
  if (expression.kind == Kind::choice) {
    if (evaluate(*expression.parts[1]).truthy()) return evaluate(*expression.parts[0]);
    return expression.parts[2] ? evaluate(*expression.parts[2]) : Value{};
  }
  const Value value = evaluate(*expression.parts[0]);
  if (meter_.error()) return {};
  switch (expression.kind) {
    case Kind::filter:
      return apply_filter(meter_, value, expression.text, arguments(expression, 1), line);
    case Kind::test:
      return apply_test(meter_, value, expression.text, arguments(expression, 1), line);
    case Kind::invert:
      return {!value.truthy()};
    case Kind::negate:
      if (const double* fraction = value.as_fraction()) return {-*fraction};
      return arithmetic(meter_, "-", {std::int64_t{0}}, value, line);
    default:  // plus
      return arithmetic(meter_, "+", {std::int64_t{0}}, value, line);
  }
}

Arguments Evaluator::arguments(const Expression& expression, std::size_t first) {
  Arguments out;
  for (std::size_t i = first; i < expression.parts.size() && !meter_.error(); ++i) {
    const std::string& name = expression.names.empty() ? std::string() : expression.names[i];
    Value value = evaluate(*expression.parts[i]);
    if (name.empty()) {
      out.positional.push_back(std::move(value));
    } else {
      out.named.emplace_back(name, std::move(value));
    }
  }
  return out;
}

// Python's rules for object[first:last:step].
Value Evaluator::slice(const Expression& expression) {
  const Value object = evaluate(*expression.parts[0]);
  if (meter_.error()) return {};
  const auto* list = object.as_indexed();
  const MarkedText* text = object.as_marked();
  if (list == nullptr && text == nullptr) {
    meter_.fail(expression.line, "cannot slice " + object.type_name());
    return {};
  }
  std::vector<std::size_t> bounds;
  if (text != nullptr && meter_.spend(text->size() / 8)) bounds = character_bounds(text->text());
  std::optional<std::int64_t> given[3];
  for (std::size_t i = 0; i < 3 && !meter_.error(); ++i) {
    if (!expression.parts[i + 1]) continue;
    const Value value = evaluate(*expression.parts[i + 1]);
    if (value.is_none()) continue;
    given[i] = number_of(value);
    if (!given[i]) {
      meter_.fail(expression.line, "a bound of a slice is " + value.type_name() + ", not a number");
    }
  }
  if (given[2] == 0) meter_.fail(expression.line, "the step of a slice is zero");
  if (meter_.error()) return {};
  const auto count = static_cast<std::int64_t>(list != nullptr ? list->size() : bounds.size() - 1);
  const std::int64_t step = given[2].value_or(1);
  const std::int64_t low = step > 0 ? 0 : -1;
  const std::int64_t high = step > 0 ? count : count - 1;
  const auto bound = [&](std::optional<std::int64_t> value, std::int64_t fallback) {
    if (!value) return fallback;
    return std::clamp(*value < 0 ? *value + count : *value, low, high);
  };
  const std::int64_t first = bound(given[0], step > 0 ? low : high);
  const std::int64_t last = bound(given[1], step > 0 ? high : low);
  std::vector<Value> items;
  MarkedText part;
  const std::int64_t stride = std::clamp<std::int64_t>(step, -count - 1, count + 1);
  for (std::int64_t i = first; stride > 0 ? i < last : i > last; i += stride) {
    if (!meter_.spend(1)) return {};
    const auto at = static_cast<std::size_t>(i);
    if (list != nullptr) {
      items.push_back((*list)[at]);
    } else {
      part.append(text->slice(bounds[at], bounds[at + 1]));
    }
  }
  if (list != nullptr) {
    return list_value(meter_, expression.line, std::move(items), object.list_kind());
  }
  Value sliced = text_value(meter_, std::move(part));
  sliced.is_markup = object.is_markup;
  return sliced;
}

// parts: key, value, key, value, ...
Value Evaluator::make_map(const Expression& expression) {
  Map map;
  for (std::size_t i = 0; i + 1 < expression.parts.size() && !meter_.error(); i += 2) {
    const Value key = evaluate(*expression.parts[i]);
    if (key.as_text() == nullptr && key.as_integer() == nullptr) {
      meter_.unsupported(expression.line, "a mapping with the key " + key.type_name());
      return {};
    }
    set_member(meter_, map, key, evaluate(*expression.parts[i + 1]));
  }
  return map_value(meter_, expression.line, std::move(map));
}

Value Evaluator::binary(const Expression& expression) {
  const std::string& name = expression.text;
  const Value a = evaluate(*expression.parts[0]);
  if (meter_.error() || (name == "and" && !a.truthy()) || (name == "or" && a.truthy())) return a;
  const Value b = evaluate(*expression.parts[1]);
  if (meter_.error() || name == "and" || name == "or") return b;
  return apply_binary(meter_, name, a, b, expression.line);
}

// Each part is compared with the next, up to the first that fails.
Value Evaluator::compare(const Expression& expression) {
  Value left = evaluate(*expression.parts[0]);
  for (std::size_t i = 1; i < expression.parts.size(); ++i) {
    Value right = evaluate(*expression.parts[i]);
    if (meter_.error()) return {};
    const std::string& name = expression.names[i - 1];
    if (!apply_comparison(meter_, name, left, right, expression.line)) return {false};
    left = std::move(right);
  }
  return {true};
}

}  // namespace edgedraft::chat
