#include "shared/model/chat_template/percent_format.h"

#include <algorithm>
#include <string_view>
#include <utility>

#include "shared/model/chat_template/format_spec.h"
#include "shared/model/chat_template/operators.h"
#include "shared/model/chat_template/printing.h"

namespace edgedraft::chat {
namespace {

class PercentFormat {
 public:
  PercentFormat(Meter& meter, const Value& values, int line)
      : meter_(meter), values_(values), line_(line) {}

  Value run(const MarkedText& text) {
    const std::string_view whole = text.text();
    std::size_t begin = 0;
    for (std::size_t at = 0; (at = whole.find('%', begin)) != whole.npos;) {
      if (!meter_.spend(1)) return {};
      out_.append(text.slice(begin, at));
      rest_ = whole.substr(at + 1);
      if (!write_conversion()) return {};
      begin = whole.size() - rest_.size();
    }
    out_.append(text.slice(begin, text.size()));
    const bool is_tuple = values_.is(ListKind::tuple);
    const bool is_one = !is_tuple && values_.as_map() == nullptr && values_.as_list() == nullptr;
    if (used_ < (is_tuple ? values_.as_list()->size() : is_one ? 1 : 0)) {
      meter_.fail(line_, "a format has more values than conversions");
      return {};
    }
    return text_value(meter_, std::move(out_));
  }

 private:
  // One conversion after its `%`.
  bool write_conversion() {
    if (rest_.starts_with('%')) {
      out_.append("%", false);
      rest_.remove_prefix(1);
      return true;
    }
    std::optional<Value> value;
    if (rest_.starts_with('(')) {
      const std::size_t end = rest_.find(')');
      const Map* map = values_.as_map();
      if (end == rest_.npos || map == nullptr) {
        meter_.fail(line_, "a format names its values, which are no mapping");
        return false;
      }
      value = member(meter_, *map, rest_.substr(1, end - 1));
      rest_.remove_prefix(end + 1);
    }
    FormatSpec spec;
    if (!read_spec(spec)) return false;
    if (!value) value = next_value();
    if (!value || meter_.error()) return false;
    std::optional<MarkedText> text;
    if (spec.type == 'r') {
      const auto shown = represented(meter_, *value, line_);
      spec.type = 's';
      if (shown) text = formatted(meter_, Value::marked(*shown), spec, line_);
    } else {
      text = formatted(meter_, *value, spec, line_);
    }
    if (!text || !meter_.spend_bytes(text->size())) return false;
    out_.append(*text);
    return true;
  }

  bool read_spec(FormatSpec& spec) {
    spec.align = '>';
    for (; !rest_.empty() && std::string_view("-+ 0").find(rest_[0]) != std::string_view::npos;
         rest_.remove_prefix(1)) {
      if (rest_[0] == '-') {
        spec.align = '<';
      } else if (rest_[0] == '0') {
        zeros_ = true;
      } else if (spec.sign != '+') {
        spec.sign = rest_[0];
      }
    }
    const auto width = take_digits(rest_);
    std::optional<std::size_t> precision;
    const bool has_precision = rest_.starts_with('.');
    if (has_precision) {
      rest_.remove_prefix(1);
      precision = take_digits(rest_);
    }
    const bool known =
        !rest_.empty() && std::string_view("srdifxX").find(rest_[0]) != std::string_view::npos;
    if (!known || !width || (has_precision && !precision)) {
      meter_.unsupported(line_, "a format with '%" + std::string(rest_.substr(0, 1)) + "'");
      return false;
    }
    spec.width = *width;
    spec.precision = precision;
    spec.type = rest_[0] == 'i' ? 'd' : rest_[0];
    rest_.remove_prefix(1);
    const bool is_number = spec.type != 's' && spec.type != 'r';
    if (std::exchange(zeros_, false) && is_number && spec.align == '>') {
      spec.align = '=';
      spec.fill = "0";
    }
    return true;
  }

  std::optional<Value> next_value() {
    const std::size_t i = used_++;
    if (values_.is(ListKind::tuple)) {
      if (i < values_.as_list()->size()) return (*values_.as_list())[i];
    } else if (i == 0) {
      return values_;
    }
    meter_.fail(line_, "a format has more conversions than values");
    return std::nullopt;
  }

  Meter& meter_;
  const Value& values_;
  int line_;
  std::string_view rest_;
  bool zeros_ = false;
  std::size_t used_ = 0;
  MarkedText out_;
};

}  // namespace

Value percent_format(Meter& meter, const Value& text, const Value& values, int line) {
  if (text.is_markup) {
    meter.unsupported(line, "formatting an escaped string");
    return {};
  }
  return PercentFormat(meter, values, line).run(*text.as_marked());
}

}  // namespace edgedraft::chat
