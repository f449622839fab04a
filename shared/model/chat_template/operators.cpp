#include "shared/model/chat_template/operators.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "shared/model/chat_template.h"
#include "shared/model/chat_template/percent_format.h"
#include "shared/model/chat_template/printing.h"
#include "shared/model/chat_template/string_operations.h"

namespace edgedraft::chat {
namespace {

// Charges for comparing a name of that size with all keys of a mapping.
bool spend_on_keys(Meter& meter, const Map& map, std::size_t size) {
  return meter.spend(map.entries.size() / 8 + map.entries.size() * (size / kBytesPerStep));
}

std::size_t size_of(const Value& key) {
  return key.as_text() == nullptr ? 0 : key.as_text()->size();
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
    if (!spend_on_keys(meter, b, size_of(entry.first))) return false;
    const Value* other = b.find(entry.first);
    return other != nullptr && equal(meter, entry.second, *other);
  });
}

// Python's ==. Every part is charged, because lists may share parts.
bool equal(Meter& meter, const Value& a, const Value& b) {
  if (!meter.spend(1)) return false;
  const auto x = number_of(a);
  const auto y = number_of(b);
  if (x && y) return *x == *y;
  const auto fraction_x = fraction_of(a);
  const auto fraction_y = fraction_of(b);
  if (fraction_x && fraction_y) return *fraction_x == *fraction_y;
  if (a.as_text() && b.as_text()) {
    return meter.spend_bytes(a.as_text()->size()) && *a.as_text() == *b.as_text();
  }
  if (a.as_list() && b.as_list()) {
    if (a.list_kind() != b.list_kind()) return false;
    return equal(meter, *a.as_list(), *b.as_list());
  }
  if (a.as_map() && b.as_map()) return equal(meter, *a.as_map(), *b.as_map());
  if (a.as_namespace() && b.as_namespace())
    return a.as_namespace()->index == b.as_namespace()->index;
  if (a.as_function() && b.as_function()) return a.as_function() == b.as_function();
  return (a.is_none() && b.is_none()) || (a.is_undefined() && b.is_undefined());
}

bool cannot_compare(Meter& meter, const Value& a, const Value& b, int line) {
  meter.fail(line, "cannot order " + a.type_name() + " and " + b.type_name());
  return false;
}

// Python's a < b or, if `or_equal`, a <= b.
bool less(Meter& meter, const Value& a, const Value& b, bool or_equal, int line) {
  if (!meter.spend(1)) return false;
  const auto x = number_of(a);
  const auto y = number_of(b);
  if (x && y) return or_equal ? *x <= *y : *x < *y;
  const auto fraction_x = fraction_of(a);
  const auto fraction_y = fraction_of(b);
  if (fraction_x && fraction_y) {
    return or_equal ? *fraction_x <= *fraction_y : *fraction_x < *fraction_y;
  }
  if (a.as_text() && b.as_text()) {
    if (!meter.spend_bytes(a.as_text()->size())) return false;
    return or_equal ? *a.as_text() <= *b.as_text() : *a.as_text() < *b.as_text();
  }
  const bool ordered = a.is(ListKind::list) || a.is(ListKind::tuple);
  if (!ordered || !b.is(a.list_kind())) return cannot_compare(meter, a, b, line);
  const auto& list_a = *a.as_list();
  const auto& list_b = *b.as_list();
  for (std::size_t i = 0; i < std::min(list_a.size(), list_b.size()); ++i) {
    if (!equal(meter, list_a[i], list_b[i])) return less(meter, list_a[i], list_b[i], false, line);
  }
  return or_equal ? list_a.size() <= list_b.size() : list_a.size() < list_b.size();
}

bool contains(Meter& meter, const Value& part, const Value& whole, int line) {
  const std::string* needle = part.as_text();
  if (const std::string* text = whole.as_text(); text != nullptr && needle != nullptr) {
    if (!spend_on_search(meter, *text, *needle)) return false;
    return text->find(*needle) != text->npos;
  }
  if (whole.as_list() != nullptr) {
    return std::ranges::any_of(whole.take_items(),
                               [&](const Value& value) { return equal(meter, part, value); });
  }
  if (const Map* map = whole.as_map(); map != nullptr && !part.as_list() && !part.as_map()) {
    return spend_on_keys(meter, *map, size_of(part)) && map->find(part) != nullptr;
  }
  if (whole.is_undefined()) return false;
  meter.fail(line, "cannot look for " + part.type_name() + " in " + whole.type_name());
  return false;
}

Value add(Meter& meter, const Value& a, const Value& b, int line) {
  const bool joins = (a.is(ListKind::list) && b.is(ListKind::list)) ||
                     (a.is(ListKind::tuple) && b.is(ListKind::tuple));
  if (joins) {
    if (!meter.spend(a.as_list()->size() + b.as_list()->size())) return {};
    std::vector<Value> items = *a.as_list();
    items.insert(items.end(), b.as_list()->begin(), b.as_list()->end());
    return list_value(meter, line, std::move(items), a.list_kind());
  }
  if (a.as_text() == nullptr || b.as_text() == nullptr) return arithmetic(meter, "+", a, b, line);
  const bool is_markup = a.is_markup || b.is_markup;
  const auto part = [is_markup](const Value& value) {
    return is_markup && !value.is_markup ? escape_html(*value.as_marked()) : *value.as_marked();
  };
  MarkedText text = part(a);
  text.append(part(b));
  Value sum = text_value(meter, std::move(text));
  sum.is_markup = is_markup;
  return sum;
}

// A string or list `count` times.
Value repeat(Meter& meter, const Value& value, std::int64_t count, int line) {
  const auto times = static_cast<std::size_t>(std::max<std::int64_t>(count, 0));
  const MarkedText* text = value.as_marked();
  const std::size_t size = text != nullptr ? text->size() : value.as_list()->size();
  const std::size_t most = text != nullptr ? kTemplateOutputBytesMax : kTemplateStepsMax;
  if (size > 0 && times > most / size) {
    meter.stop(output_too_long());
    return {};
  }
  if (text != nullptr) {
    MarkedText repeated;
    for (std::size_t i = 0; size > 0 && i < times && meter.spend(1); ++i) repeated.append(*text);
    Value result = text_value(meter, std::move(repeated));
    result.is_markup = value.is_markup;
    return result;
  }
  if (!meter.spend(size * times)) return {};
  std::vector<Value> items;
  for (std::size_t i = 0; size > 0 && i < times; ++i) {
    items.insert(items.end(), value.as_list()->begin(), value.as_list()->end());
  }
  return list_value(meter, line, std::move(items), value.list_kind());
}

bool is_repeatable(const Value& value) {
  return value.as_text() != nullptr || value.is(ListKind::list) || value.is(ListKind::tuple);
}

// Python's // of integers rounds down.
std::optional<std::int64_t> divide(std::int64_t x, std::int64_t y) {
  if (y == 0 || (x == std::numeric_limits<std::int64_t>::min() && y == -1)) return std::nullopt;
  return x / y - (x % y != 0 && (x < 0) != (y < 0) ? 1 : 0);
}

std::optional<std::int64_t> power(std::int64_t base, std::int64_t exponent) {
  std::int64_t result = 1;
  if (exponent > 64 && (base > 1 || base < -1)) return std::nullopt;
  if (exponent > 64) exponent = 64 + exponent % 2;  // of 0, 1 and -1
  for (std::int64_t i = 0; i < exponent; ++i) {
    if (__builtin_mul_overflow(result, base, &result)) return std::nullopt;
  }
  return result;
}

std::optional<std::int64_t> compute(const std::string& name, std::int64_t x, std::int64_t y) {
  std::int64_t result = 0;
  bool overflows = false;
  if (name == "+") {
    overflows = __builtin_add_overflow(x, y, &result);
  } else if (name == "-") {
    overflows = __builtin_sub_overflow(x, y, &result);
  } else if (name == "*") {
    overflows = __builtin_mul_overflow(x, y, &result);
  } else if (name == "**") {
    return power(x, y);
  } else {
    const auto quotient = divide(x, y);
    if (!quotient || name == "//") return quotient;
    result = x - *quotient * y;
  }
  if (overflows) return std::nullopt;
  return result;
}

std::optional<double> compute(const std::string& name, double x, double y) {
  if (name == "+") return x + y;
  if (name == "-") return x - y;
  if (name == "*") return x * y;
  if (name == "**") {
    if ((x == 0 && y < 0) || (x < 0 && y != std::floor(y))) return std::nullopt;
    return std::pow(x, y);
  }
  if (y == 0) return std::nullopt;
  if (name == "/") return x / y;
  const double rest = std::fmod(x, y);
  const bool shifts = rest != 0 && (rest < 0) != (y < 0);
  if (name == "%") return rest == 0 ? std::copysign(0.0, y) : shifts ? rest + y : rest;
  return std::round((x - (shifts ? rest + y : rest)) / y);
}

}  // namespace

Value text_value(Meter& meter, MarkedText text) {
  if (text.size() > kTemplateOutputBytesMax) meter.stop(output_too_long());
  if (!meter.spend(text.size() / kBytesPerStep + text.spans().size())) return {};
  return Value::marked(std::move(text));
}

Value list_value(Meter& meter, int line, std::vector<Value> items, ListKind kind) {
  if (!meter.spend(items.size())) return {};
  Value list = Value::list(std::move(items), kind);
  if (list.depth() > kTemplateDepthMax) meter.unsupported(line, "a list of that depth");
  return list;
}

Value map_value(Meter& meter, int line, Map map) {
  if (!meter.spend(map.entries.size())) return {};
  Value value = Value::map(std::move(map));
  if (value.depth() > kTemplateDepthMax) meter.unsupported(line, "a mapping of that depth");
  return value;
}

std::optional<std::vector<Value>> items_to_read(Meter& meter, const Value& value, int line) {
  std::vector<Value> items;
  if (value.as_list() != nullptr) {
    if (!meter.spend(value.as_list()->size() / 8)) return std::nullopt;
    return value.take_items();
  }
  if (const Map* map = value.as_map()) {
    if (!meter.spend(map->entries.size())) return std::nullopt;
    for (const auto& [key, entry] : map->entries) items.push_back(key);
  } else if (const MarkedText* text = value.as_marked()) {
    if (!meter.spend(text->size())) return std::nullopt;
    const auto bounds = character_bounds(text->text());
    for (std::size_t i = 0; i + 1 < bounds.size(); ++i) {
      items.push_back(Value::marked(text->slice(bounds[i], bounds[i + 1])));
    }
  } else if (!value.is_undefined()) {
    meter.fail(line, "cannot loop over " + value.type_name());
  }
  if (meter.error()) return std::nullopt;
  return items;
}

Value member(Meter& meter, const Map& map, std::string_view name) {
  if (!spend_on_keys(meter, map, name.size())) return {};
  const Value* found = map.find(name);
  return found == nullptr ? Value{} : *found;
}

Value member(Meter& meter, const Map& map, const Value& key) {
  if (!spend_on_keys(meter, map, size_of(key))) return {};
  const Value* found = map.find(key);
  return found == nullptr ? Value{} : *found;
}

void set_member(Meter& meter, Map& map, Value key, Value value) {
  if (!spend_on_keys(meter, map, size_of(key)) || !meter.spend(1)) return;
  map.set(std::move(key), std::move(value));
}

Value arithmetic(Meter& meter, const std::string& name, const Value& a, const Value& b, int line) {
  const auto x = number_of(a);
  const auto y = number_of(b);
  if (x && y && name != "/" && (name != "**" || *y >= 0)) {
    if (const auto result = compute(name, *x, *y)) return {*result};
    meter.fail(line, "integer overflow, or division by zero");
    return {};
  }
  const auto fraction_x = fraction_of(a);
  const auto fraction_y = fraction_of(b);
  if (!fraction_x || !fraction_y) {
    meter.fail(line, "cannot compute " + a.type_name() + " " + name + " " + b.type_name());
    return {};
  }
  if (const auto result = compute(name, *fraction_x, *fraction_y)) return {*result};
  meter.fail(line, "division by zero, or a root of a negative number");
  return {};
}

bool spend_on_search(Meter& meter, std::string_view text, std::string_view part) {
  return meter.spend(text.size() / kBytesPerStep * (part.size() / kBytesPerStep + 1));
}

bool apply_comparison(Meter& meter, const std::string& name, const Value& a, const Value& b,
                      int line) {
  if (const std::string* text = a.as_text()) meter.spend(text->size() / kBytesPerStep);
  if (name == "==") return equal(meter, a, b);
  if (name == "!=") return !equal(meter, a, b);
  if (name == "in") return contains(meter, a, b, line);
  if (name == "not in") return !contains(meter, a, b, line);
  if (name == "<" || name == "<=") return less(meter, a, b, name == "<=", line);
  return less(meter, b, a, name == ">=", line);
}

Value apply_binary(Meter& meter, const std::string& name, const Value& a, const Value& b,
                   int line) {
  if (name == "+") return add(meter, a, b, line);
  if (name == "*" && is_repeatable(a) && number_of(b)) return repeat(meter, a, *number_of(b), line);
  if (name == "*" && is_repeatable(b) && number_of(a)) return repeat(meter, b, *number_of(a), line);
  if (name == "%" && a.as_text() != nullptr) return percent_format(meter, a, b, line);
  if (name != "~") return arithmetic(meter, name, a, b, line);
  auto left = printed(meter, a, line);
  const auto right = printed(meter, b, line);
  if (!left || !right) return {};
  left->append(*right);
  return text_value(meter, *std::move(left));
}

}  // namespace edgedraft::chat
