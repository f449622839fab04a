#include "shared/model/chat_template/filters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "shared/model/chat_template/json_value.h"
#include "shared/model/chat_template/methods.h"
#include "shared/model/chat_template/operators.h"
#include "shared/model/chat_template/percent_format.h"
#include "shared/model/chat_template/printing.h"
#include "shared/model/chat_template/string_operations.h"
#include "shared/model/chat_template/to_json.h"

namespace edgedraft::chat {
namespace {

Value length_of(Meter& meter, const Value& value, int line) {
  if (const auto* list = value.as_list(); list != nullptr && !value.is(ListKind::iterator)) {
    return {static_cast<std::int64_t>(list->size())};
  }
  if (const Map* map = value.as_map()) return {static_cast<std::int64_t>(map->entries.size())};
  if (value.is_undefined()) return {std::int64_t{0}};
  if (const std::string* text = value.as_text()) {
    if (!meter.spend_bytes(text->size())) return {};
    return {character_count(*text)};
  }
  meter.fail(line, value.type_name() + " has no length");
  return {};
}

Value default_of(const Value& value, const Arguments& arguments) {
  const bool replaces_falsy = arguments.get(1, "boolean").truthy();
  if (!value.is_undefined() && (value.truthy() || !replaces_falsy)) return value;
  const Value* const other = arguments.find(0, "default_value");
  return other == nullptr ? Value::text("") : *other;
}

// Number of a text with white space around it; nullopt for another text.
template <class Number>
std::optional<Number> parse_number(Meter& meter, const MarkedText& text) {
  if (!meter.spend_bytes(text.size())) return std::nullopt;
  const MarkedText bare = strip(text, Strip::both, std::nullopt);
  std::string_view digits = bare.text();
  if (digits.starts_with('+') && !digits.starts_with("+-")) digits.remove_prefix(1);
  Number number = 0;
  const char* const end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

Value truncated(Meter& meter, double number, int line) {
  constexpr double kLimit = 9223372036854775808.0;  // 2^63
  if (!(std::abs(number) < kLimit)) {
    meter.fail(line, "a number is too large for an integer");
    return {};
  }
  return {static_cast<std::int64_t>(number)};
}

Value integer_of(Meter& meter, const Value& value, const Arguments& arguments, int line) {
  if (arguments.find(1, "base") != nullptr) {
    meter.unsupported(line, "the filter 'int' with a base");
    return {};
  }
  if (const auto number = number_of(value)) return {*number};
  if (const double* fraction = value.as_fraction()) return truncated(meter, *fraction, line);
  if (const MarkedText* text = value.as_marked()) {
    if (const auto number = parse_number<std::int64_t>(meter, *text)) return {*number};
    if (const auto fraction = parse_number<double>(meter, *text)) {
      return truncated(meter, *fraction, line);
    }
  }
  if (value.is_undefined()) meter.fail(line, "cannot convert an undefined value to a number");
  const Value* const other = arguments.find(0, "default");
  return other == nullptr ? Value{std::int64_t{0}} : *other;
}

Value float_of(Meter& meter, const Value& value, const Arguments& arguments, int line) {
  if (const auto fraction = fraction_of(value)) return {*fraction};
  if (const MarkedText* text = value.as_marked()) {
    if (const auto fraction = parse_number<double>(meter, *text)) return {*fraction};
  }
  if (value.is_undefined()) meter.fail(line, "cannot convert an undefined value to a number");
  const Value* const other = arguments.find(0, "default");
  return other == nullptr ? Value{0.0} : *other;
}

Value absolute(Meter& meter, const Value& value, int line) {
  if (const double* fraction = value.as_fraction()) return {std::abs(*fraction)};
  const auto number = number_of(value);
  if (number && *number < 0) return arithmetic(meter, "-", {std::int64_t{0}}, {*number}, line);
  if (number) return {*number};
  meter.fail(line, "cannot apply the filter 'abs' to " + value.type_name());
  return {};
}

// Rounds half to even, as Python does, if no method is given.
Value rounded(Meter& meter, const Value& value, const Arguments& arguments, int line) {
  constexpr std::int64_t kPrecisionMax = 15;  // decimal digits of a double
  const Value* const given = arguments.find(0, "precision");
  const Value* const method = arguments.find(1, "method");
  const auto precision = given == nullptr ? std::int64_t{0} : number_of(*given).value_or(-1);
  const std::string name = method == nullptr              ? "common"
                           : method->as_text() != nullptr ? *method->as_text()
                                                          : "";
  const auto fraction = fraction_of(value);
  const bool known = name == "common" || name == "ceil" || name == "floor";
  if (!fraction || !known || precision < 0 || precision > kPrecisionMax) {
    meter.unsupported(line, "this form of the filter 'round' of " + value.type_name());
    return {};
  }
  if (name == "common") {
    if (const auto number = number_of(value)) return {*number};
    char text[400];
    std::snprintf(text, sizeof text, "%.*f", static_cast<int>(precision), *fraction);
    double number = 0;
    std::from_chars(text, text + std::string_view(text).size(), number);
    return {number};
  }
  const double scale = std::pow(10.0, static_cast<double>(precision));
  const double scaled = *fraction * scale;
  return {(name == "ceil" ? std::ceil(scaled) : std::floor(scaled)) / scale};
}

Value parse_json(Meter& meter, const Value& value, int line) {
  const std::string* text = value.as_text();
  if (text == nullptr) {
    meter.fail(line, "cannot read JSON from " + value.type_name());
    return {};
  }
  if (!meter.spend(text->size() / 4)) return {};
  auto parsed = json_value(*text, "values of the filter 'from_json'");
  if (parsed) return *std::move(parsed);
  meter.fail(line, parsed.error().message);
  return {};
}

// Jinja's indent: all lines but the first, and no empty ones unless asked.
Value indented(Meter& meter, const MarkedText& text, const Arguments& arguments, int line) {
  constexpr std::int64_t kWidthMax = 1024;
  const Value* const width = arguments.find(0, "width");
  const bool first = arguments.get(1, "first").truthy();
  const bool blank = arguments.get(2, "blank").truthy();
  MarkedText indent = MarkedText::own("    ");
  if (width != nullptr && width->as_marked() != nullptr) {
    indent = *width->as_marked();
  } else if (width != nullptr) {
    const auto count = number_of(*width);
    if (!count || *count > kWidthMax) {
      meter.unsupported(line, "the filter 'indent' with that width");
      return {};
    }
    const auto spaces = static_cast<std::size_t>(std::max<std::int64_t>(*count, 0));
    indent = MarkedText::own(std::string(spaces, ' '));
  }
  if (!meter.spend(text.size())) return {};
  MarkedText whole = text;
  whole.append("\n", false);
  MarkedText out;
  if (first) out.append(indent);
  const std::vector<MarkedText> lines = split_lines(whole, false);
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.append("\n", false);
    if (i > 0 && (blank || lines[i].size() > 0)) {
      if (!meter.spend_bytes(indent.size())) return {};
      out.append(indent);
    }
    out.append(lines[i]);
    if (!meter.spend(1)) return {};
  }
  return text_value(meter, std::move(out));
}

// Filters of printable values; nullopt for other names.
std::optional<Value> apply_text_filter(Meter& meter, const Value& value, const std::string& name,
                                       const Arguments& arguments, int line) {
  constexpr std::string_view kNames[] = {"trim",   "upper",   "lower",  "capitalize",
                                         "title",  "replace", "string", "safe",
                                         "escape", "e",       "format"};
  if (std::ranges::find(kNames, name) == std::end(kNames)) return std::nullopt;
  auto text = printed(meter, value, line);
  if (!text) return Value{};
  Value whole = text_value(meter, *std::move(text));
  whole.is_markup = value.is_markup || name == "safe";
  if (meter.error() || name == "string" || name == "safe") return whole;
  if (name == "escape" || name == "e") {
    if (!whole.is_markup) whole = text_value(meter, escape_html(*whole.as_marked()));
    whole.is_markup = true;
    return whole;
  }
  if (name == "format") {
    if (arguments.named.empty()) {
      return percent_format(meter, whole, Value::list(arguments.positional, ListKind::tuple), line);
    }
    Map named;
    for (const auto& [key, argument] : arguments.named) {
      set_member(meter, named, Value::text(key), argument);
    }
    return percent_format(meter, whole, Value::map(std::move(named)), line);
  }
  if (name == "title") return text_value(meter, change_case(*whole.as_marked(), "words"));
  Arguments texts = arguments;
  if (name == "replace") {
    for (std::size_t i = 0; i < std::min<std::size_t>(2, texts.positional.size()); ++i) {
      auto part = printed(meter, texts.positional[i], line);
      if (part) texts.positional[i] = Value::marked(*std::move(part));
    }
  }
  return call_method(meter, whole, name == "trim" ? "strip" : name, texts, line);
}

}  // namespace

Value apply_filter(Meter& meter, const Value& value, const std::string& name,
                   const Arguments& arguments, int line) {
  if (meter.error()) return {};
  if (name == "length" || name == "count") return length_of(meter, value, line);
  if (name == "default" || name == "d") return default_of(value, arguments);
  if (name == "int") return integer_of(meter, value, arguments, line);
  if (name == "float") return float_of(meter, value, arguments, line);
  if (name == "abs") return absolute(meter, value, line);
  if (name == "round") return rounded(meter, value, arguments, line);
  if (name == "tojson") return to_json(meter, value, arguments, line);
  if (name == "from_json") return parse_json(meter, value, line);
  if (name == "indent") {
    if (const MarkedText* text = value.as_marked()) return indented(meter, *text, arguments, line);
    meter.fail(line, "cannot indent " + value.type_name());
    return {};
  }
  if (auto result = apply_text_filter(meter, value, name, arguments, line)) return *result;
  if (auto result = apply_list_filter(meter, value, name, arguments, line)) return *result;
  meter.unsupported(line, "the filter '" + name + "'");
  return {};
}

}  // namespace edgedraft::chat
