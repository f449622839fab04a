#include "shared/model/chat_template/printing.h"

#include <charconv>
#include <cmath>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/model/chat_template.h"
#include "shared/model/chat_template/string_operations.h"

namespace edgedraft::chat {
namespace {

class Printer {
 public:
  Printer(Meter& meter, int line) : meter_(meter), line_(line) {}

  // Recursion is bounded: values nest at most kTemplateDepthMax deep.
  void represent(const Value& value) {
    if (!meter_.spend(1)) return;
    if (const MarkedText* text = value.as_marked()) {
      if (value.is_markup) add("Markup(");
      add_quoted(*text);
      if (value.is_markup) add(")");
    } else if (const auto* list = value.as_list()) {
      represent_list(value, *list);
    } else if (const Map* map = value.as_map()) {
      add("{");
      for (std::size_t i = 0; i < map->entries.size() && !meter_.error(); ++i) {
        if (i > 0) add(", ");
        represent(map->entries[i].first);
        add(": ");
        represent(map->entries[i].second);
      }
      add("}");
    } else {
      add_scalar(value);
    }
  }

  void add_scalar(const Value& value) {
    if (value.is_undefined()) return add("Undefined");
    if (value.is_none()) return add("None");
    if (value.is_boolean()) return add(value.truthy() ? "True" : "False");
    if (const auto* number = value.as_integer()) return add(std::to_string(*number));
    if (const double* fraction = value.as_fraction()) return add(fraction_text(*fraction));
    meter_.unsupported(line_, "printing " + value.type_name());
  }

  std::optional<MarkedText> take() {
    if (meter_.error()) return std::nullopt;
    return std::move(out_);
  }

 private:
  void represent_list(const Value& value, const std::vector<Value>& items) {
    const bool is_tuple = value.is(ListKind::tuple);
    if (!is_tuple && !value.is(ListKind::list)) {
      return meter_.unsupported(line_, "printing " + value.type_name());
    }
    add(is_tuple ? "(" : "[");
    for (std::size_t i = 0; i < items.size() && !meter_.error(); ++i) {
      if (i > 0) add(", ");
      represent(items[i]);
    }
    add(!is_tuple ? "]" : items.size() == 1 ? ",)" : ")");
  }

  void add_quoted(const MarkedText& text) {
    if (!meter_.spend(text.size() / kBytesPerStep + 1)) return;
    std::string quoted = quoted_like_python(text.text());
    add(text.has_foreign() ? MarkedText::foreign(std::move(quoted))
                           : MarkedText::own(std::move(quoted)));
  }

  void add(const char* text) { add(MarkedText::own(text)); }
  void add(const std::string& text) { add(MarkedText::own(text)); }
  void add(const MarkedText& text) {
    if (!meter_.spend_bytes(text.size())) return;
    if (text.size() > kTemplateOutputBytesMax - out_.size()) return meter_.stop(output_too_long());
    out_.append(text);
  }

  Meter& meter_;
  int line_;
  MarkedText out_;
};

}  // namespace

std::optional<MarkedText> represented(Meter& meter, const Value& value, int line) {
  Printer printer(meter, line);
  printer.represent(value);
  return printer.take();
}

std::optional<MarkedText> printed(Meter& meter, const Value& value, int line) {
  if (const MarkedText* text = value.as_marked()) return *text;
  if (value.is_undefined()) return MarkedText();
  return represented(meter, value, line);
}

std::string fraction_text(double fraction) {
  if (std::isnan(fraction)) return "nan";
  if (std::isinf(fraction)) return fraction < 0 ? "-inf" : "inf";
  // Shortest digits that give the number, as d.ddde+XX.
  char buffer[32];
  const auto written = std::to_chars(buffer, buffer + sizeof buffer, std::abs(fraction),
                                     std::chars_format::scientific);
  const std::string_view whole(buffer, static_cast<std::size_t>(written.ptr - buffer));
  const std::size_t e = whole.find('e');
  std::string digits(whole.substr(0, e));
  std::erase(digits, '.');
  int exponent = 0;
  const std::size_t skip = whole[e + 1] == '+' ? 2 : 1;  // from_chars() accepts no plus sign
  std::from_chars(whole.data() + e + skip, whole.data() + whole.size(), exponent);
  const std::string sign = std::signbit(fraction) ? "-" : "";
  if (exponent < -4 || exponent >= 16) {
    if (digits.size() > 1) digits.insert(1, ".");
    return sign + digits + std::string(whole.substr(e));
  }
  if (exponent < 0)
    return sign + "0." + std::string(static_cast<std::size_t>(-exponent - 1), '0') + digits;
  const auto before_point = static_cast<std::size_t>(exponent) + 1;
  if (digits.size() <= before_point) {
    return sign + digits + std::string(before_point - digits.size(), '0') + ".0";
  }
  return sign + digits.insert(before_point, ".");
}

}  // namespace edgedraft::chat
