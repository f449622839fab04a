#include "shared/model/chat_template/format_spec.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <utility>

#include "shared/base/ascii.h"
#include "shared/model/chat_template/operators.h"
#include "shared/model/chat_template/printing.h"
#include "shared/model/chat_template/string_operations.h"

namespace edgedraft::chat {
namespace {

// A number's digits without sign; empty if the type does not fit.
std::string digits_of(const Value& value, const FormatSpec& spec) {
  const auto integer = number_of(value);
  const auto fraction = fraction_of(value);
  const bool as_fraction = spec.type == 'f' || (spec.type == '\0' && !integer);
  if (!fraction || (as_fraction && !std::isfinite(*fraction))) return {};
  if (as_fraction) {
    if (spec.type == '\0' && !spec.precision) return fraction_text(std::abs(*fraction));
    if (spec.type == '\0') return {};
    char text[kFormatWidthMax + 400];
    const int size =
        std::snprintf(text, sizeof text, "%.*f", static_cast<int>(spec.precision.value_or(6)),
                      std::abs(*fraction));
    return {text, static_cast<std::size_t>(size)};
  }
  if (!integer || spec.precision) return {};
  // In unsigned arithmetic the lowest integer has its magnitude, too.
  const auto bits = static_cast<std::uint64_t>(*integer);
  const auto magnitude = static_cast<unsigned long long>(*integer < 0 ? 0 - bits : bits);
  if (spec.type != 'x' && spec.type != 'X') return std::to_string(magnitude);
  char text[32];
  std::snprintf(text, sizeof text, spec.type == 'x' ? "%llx" : "%llX", magnitude);
  return text;
}

void add_commas(std::string& digits) {
  std::size_t at = std::min(digits.find('.'), digits.size());
  while (at > 3) digits.insert(at -= 3, ",");
}

}  // namespace

std::optional<std::size_t> take_digits(std::string_view& text) {
  std::size_t number = 0;
  while (!text.empty() && is_ascii_digit(text[0])) {
    number = number * 10 + static_cast<std::size_t>(text[0] - '0');
    if (number > kFormatWidthMax) return std::nullopt;
    text.remove_prefix(1);
  }
  return number;
}

std::optional<MarkedText> formatted(Meter& meter, const Value& value, const FormatSpec& spec,
                                    int line) {
  const MarkedText fill = MarkedText::own(spec.fill);
  if (!meter.spend(1 + spec.width / 8)) return std::nullopt;
  const bool is_number = spec.type != 's' && !value.is_boolean() && fraction_of(value);
  if (!is_number) {
    const bool as_text = spec.type == '\0' || spec.type == 's';
    if (!as_text || spec.align == '=' || spec.commas) {
      meter.unsupported(line, "this format of " + value.type_name());
      return std::nullopt;
    }
    auto text = printed(meter, value, line);
    if (!text) return std::nullopt;
    if (spec.precision) {
      if (!meter.spend(text->size())) return std::nullopt;
      const auto bounds = character_bounds(text->text());
      *text = text->slice(0, bounds[std::min(*spec.precision, bounds.size() - 1)]);
    }
    return pad(*text, spec.width, spec.align == '\0' ? '<' : spec.align, fill);
  }
  std::string digits = digits_of(value, spec);
  if (digits.empty()) {
    meter.unsupported(line, "this format of " + value.type_name());
    return std::nullopt;
  }
  if (spec.commas) add_commas(digits);
  const bool negative = std::signbit(*fraction_of(value));
  const std::string sign = negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  if (spec.align != '=') {
    return pad(MarkedText::own(sign + digits), spec.width, spec.align == '\0' ? '>' : spec.align,
               fill);
  }
  MarkedText text = MarkedText::own(sign);
  text.append(
      pad(MarkedText::own(digits), spec.width - std::min(spec.width, sign.size()), '>', fill));
  return text;
}

}  // namespace edgedraft::chat
