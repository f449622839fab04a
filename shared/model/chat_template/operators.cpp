#include "shared/model/chat_template/operators.h"

#include <algorithm>
#include <utility>

#include "shared/model/chat_template.h"
#include "shared/model/chat_template/json_value.h"

namespace edgedraft::chat {
namespace {

// Charges for comparing a name with all names of a mapping.
bool spend_on_names(Meter& meter, const Map& map, std::string_view name) {
  return meter.spend(map.entries.size() / 8 + map.entries.size() * (name.size() / kBytesPerStep));
}

Value add(Meter& meter, const Value& a, const Value& b, int line) {
  if (const auto* x = a.as_list(), *y = b.as_list(); x != nullptr && y != nullptr) {
    std::vector<Value> items = *x;
    items.insert(items.end(), y->begin(), y->end());
    return list_value(meter, line, std::move(items));
  }
  if (a.as_text() == nullptr || b.as_text() == nullptr) return arithmetic(meter, "+", a, b, line);
  MarkedText text = *a.as_marked();
  text.append(*b.as_marked());
  return text_value(meter, std::move(text));
}

bool equal(Meter& meter, const Value& a, const Value& b);

bool equal(Meter& meter, const std::vector<Value>& a, const std::vector<Value>& b) {
  return &a == &b || std::ranges::equal(
                         a, b, [&](const Value& x, const Value& y) { return equal(meter, x, y); });
}

bool equal(Meter& meter, const Map& a, const Map& b) {
  if (&a == &b) return true;
  if (a.entries.size() != b.entries.size()) return false;
  return std::ranges::all_of(a.entries, [&](const auto& entry) {
    if (!spend_on_names(meter, b, entry.first.text())) return false;
    const Value* other = b.find(entry.first.text());
    return other != nullptr && equal(meter, entry.second, *other);
  });
}

// Python's ==. Every part is charged, because lists may share parts.
bool equal(Meter& meter, const Value& a, const Value& b) {
  if (!meter.spend(1)) return false;
  const auto x = number_of(a);
  const auto y = number_of(b);
  if (x && y) return *x == *y;
  if (a.as_fraction() && b.as_fraction()) return *a.as_fraction() == *b.as_fraction();
  if (a.as_text() && b.as_text()) {
    return meter.spend_bytes(a.as_text()->size()) && *a.as_text() == *b.as_text();
  }
  if (a.as_list() && b.as_list()) return equal(meter, *a.as_list(), *b.as_list());
  if (a.as_map() && b.as_map()) return equal(meter, *a.as_map(), *b.as_map());
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
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

}  // namespace

Value text_value(Meter& meter, MarkedText text) {
  if (text.size() > kTemplateOutputBytesMax) meter.stop(output_too_long());
  if (!meter.spend(text.size() / kBytesPerStep + text.spans().size())) return {};
  return Value::marked(std::move(text));
}

Value list_value(Meter& meter, int line, std::vector<Value> items) {
  if (!meter.spend(items.size())) return {};
  Value list = Value::list(std::move(items));
  if (list.depth() > kTemplateDepthMax) meter.unsupported(line, "a list of that depth");
  return list;
}

Value map_value(Meter& meter, int line, Map map) {
  if (!meter.spend(map.entries.size())) return {};
  Value value = Value::map(std::move(map));
  if (value.depth() > kTemplateDepthMax) meter.unsupported(line, "a mapping of that depth");
  return value;
}

Value member(Meter& meter, const Map& map, std::string_view name) {
  if (!spend_on_names(meter, map, name)) return {};
  const Value* found = map.find(name);
  return found == nullptr ? Value{} : *found;
}

void set_member(Meter& meter, Map& map, MarkedText name, Value value) {
  const std::size_t kept = name.size() / kBytesPerStep + name.spans().size();
  if (!spend_on_names(meter, map, name.text()) || !meter.spend(1 + kept)) return;
  map.set(std::move(name), std::move(value));
}

std::optional<MarkedText> printed(Meter& meter, const Value& value, int line) {
  if (const MarkedText* text = value.as_marked()) return *text;
  if (value.is_undefined()) return MarkedText();
  if (value.is_none()) return MarkedText::own("None");
  if (const auto* flag = std::get_if<bool>(&value.held)) {
    return MarkedText::own(*flag ? "True" : "False");
  }
  if (const auto* number = value.as_integer()) return MarkedText::own(std::to_string(*number));
  if (const double* fraction = value.as_fraction()) {
    return MarkedText::own(fraction_text(*fraction));
  }
  meter.unsupported(line, "printing " + value.type_name());
  return std::nullopt;
}

Value arithmetic(Meter& meter, const std::string& name, const Value& a, const Value& b, int line) {
  const std::int64_t* x = a.as_integer();
  const std::int64_t* y = b.as_integer();
  if (x == nullptr || y == nullptr) {
    meter.fail(line, "cannot compute " + a.type_name() + " " + name + " " + b.type_name());
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
    sound = *y > 0;  // Python's sign rule then gives a result in [0, y)
    if (sound) result = *x % *y < 0 ? *x % *y + *y : *x % *y;
  }
  if (!sound) meter.fail(line, "integer overflow, or a divisor below 1");
  return {result};
}

bool spend_on_search(Meter& meter, std::string_view text, std::string_view part) {
  return meter.spend(text.size() / kBytesPerStep * (part.size() / kBytesPerStep + 1));
}

Value contains(Meter& meter, const Value& part, const Value& whole, int line) {
  const std::string* needle = part.as_text();
  if (const std::string* text = whole.as_text(); text != nullptr && needle != nullptr) {
    if (!spend_on_search(meter, *text, *needle)) return {};
    return {text->find(*needle) != text->npos};
  }
  if (const auto* list = whole.as_list()) {
    return {std::any_of(list->begin(), list->end(),
                        [&](const Value& value) { return equal(meter, part, value); })};
  }
  if (const Map* map = whole.as_map(); map != nullptr && needle != nullptr) {
    if (!spend_on_names(meter, *map, *needle)) return {};
    return {map->find(*needle) != nullptr};
  }
  meter.fail(line, "'in' on " + whole.type_name() + " is not supported");
  return {};
}

Value apply_binary(Meter& meter, const std::string& name, const Value& a, const Value& b,
                   int line) {
  if (const std::string* text = a.as_text()) meter.spend(text->size() / kBytesPerStep);
  if (name == "==") return {equal(meter, a, b)};
  if (name == "!=") return {!equal(meter, a, b)};
  if (name == "in") return contains(meter, a, b, line);
  if (name == "+") return add(meter, a, b, line);
  if (name == "-" || name == "*" || name == "%") return arithmetic(meter, name, a, b, line);
  if (name != "~") return compare(meter, name, a, b, line);
  auto left = printed(meter, a, line);
  const auto right = printed(meter, b, line);
  if (!left || !right) return {};
  left->append(*right);
  return text_value(meter, *std::move(left));
}

}  // namespace edgedraft::chat
