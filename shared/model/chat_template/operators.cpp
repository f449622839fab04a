#include "shared/model/chat_template/operators.h"

#include <algorithm>
#include <utility>

#include "shared/model/chat_template.h"

namespace edgedraft::chat {
namespace {

Value add(Meter& meter, const Value& a, const Value& b, int line) {
  if (a.as_text() == nullptr || b.as_text() == nullptr) return arithmetic(meter, "+", a, b, line);
  return text_value(meter, *a.as_text() + *b.as_text());
}

Value compare(Meter& meter, const std::string& name, const Value& a, const Value& b, int line) {
  const std::int64_t* x = a.as_integer();
  const std::int64_t* y = b.as_integer();
  if (x == nullptr || y == nullptr) {
    meter.fail(line, a.type_name() + " " + name + " " + b.type_name() + " is not supported");
    return {};
  }
  if (name == "<") return {*x < *y};
  if (name == "<=") return {*x <= *y};
  if (name == ">") return {*x > *y};
  return {*x >= *y};
}

Value contains(Meter& meter, const Value& part, const Value& whole, int line) {
  const std::string* needle = part.as_text();
  if (const std::string* text = whole.as_text(); text != nullptr && needle != nullptr) {
    // std::string::find may look at every pair of places.
    if (!meter.spend(text->size() / kBytesPerStep * (needle->size() / kBytesPerStep + 1)))
      return {};
    return {text->find(*needle) != text->npos};
  }
  if (const List* list = whole.as_list()) {
    const std::size_t steps_each = needle == nullptr ? 1 : needle->size() / kBytesPerStep + 1;
    if (!meter.spend(list->size() * steps_each)) return {};
    return {std::any_of(list->begin(), list->end(),
                        [&](const Value& value) { return equal(part, value); })};
  }
  if (const Map* map = whole.as_map(); map != nullptr && needle != nullptr) {
    return {map->contains(*needle)};
  }
  meter.fail(line, "'in' on " + whole.type_name() + " is not supported");
  return {};
}

}  // namespace

Value text_value(Meter& meter, std::string text) {
  if (text.size() > kTemplateOutputBytesMax) meter.stop(output_too_long());
  if (!meter.spend(text.size() / kBytesPerStep)) return {};
  return Value::text(std::move(text));
}

std::optional<std::string> printed(Meter& meter, const Value& value, int line) {
  if (value.is_undefined()) return std::string();
  if (value.is_none()) return std::string("None");
  if (const auto* flag = std::get_if<bool>(&value.held)) return *flag ? "True" : "False";
  if (const auto* number = value.as_integer()) return std::to_string(*number);
  if (const std::string* text = value.as_text()) return *text;
  meter.fail(line, "writing " + value.type_name() + " is not supported");
  return std::nullopt;
}

Value arithmetic(Meter& meter, const std::string& name, const Value& a, const Value& b, int line) {
  const std::int64_t* x = a.as_integer();
  const std::int64_t* y = b.as_integer();
  if (x == nullptr || y == nullptr) {
    meter.fail(line, a.type_name() + " " + name + " " + b.type_name() + " has no meaning");
    return {};
  }
  std::int64_t result = 0;
  bool sound = true;
  if (name == "+") {
    sound = !__builtin_add_overflow(*x, *y, &result);
  } else if (name == "-") {
    sound = !__builtin_sub_overflow(*x, *y, &result);
  } else if (name == "*") {
    sound = !__builtin_mul_overflow(*x, *y, &result);
  } else {
    sound = *y > 0;  // Python's sign rule then means: into [0, y)
    if (sound) result = *x % *y < 0 ? *x % *y + *y : *x % *y;
  }
  if (!sound) meter.fail(line, "a result that no number holds");
  return {result};
}

Value apply_binary(Meter& meter, const std::string& name, const Value& a, const Value& b,
                   int line) {
  if (const std::string* text = a.as_text()) meter.spend(text->size() / kBytesPerStep);
  if (name == "==") return {equal(a, b)};
  if (name == "!=") return {!equal(a, b)};
  if (name == "in") return contains(meter, a, b, line);
  if (name == "+") return add(meter, a, b, line);
  if (name == "-" || name == "*" || name == "%") return arithmetic(meter, name, a, b, line);
  if (name != "~") return compare(meter, name, a, b, line);
  const auto left = printed(meter, a, line);
  const auto right = printed(meter, b, line);
  return left && right ? text_value(meter, *left + *right) : Value{};
}

}  // namespace edgedraft::chat
