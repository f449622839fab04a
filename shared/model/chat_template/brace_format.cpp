#include "shared/model/chat_template/brace_format.h"

#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <utility>

#include "shared/model/chat_template/attributes.h"
#include "shared/model/chat_template/format_spec.h"
#include "shared/model/chat_template/operators.h"
#include "shared/model/chat_template/printing.h"

namespace edgedraft::chat {
namespace {

class BraceFormat {
 public:
  BraceFormat(Meter& meter, const Arguments& arguments, int line)
      : meter_(meter), arguments_(arguments), line_(line) {}

  Value run(const MarkedText& text) {
    const std::string_view whole = text.text();
    std::size_t begin = 0;
    for (std::size_t at = 0; (at = whole.find_first_of("{}", begin)) != whole.npos;) {
      if (!meter_.spend(1)) return {};
      out_.append(text.slice(begin, at));
      if (at + 1 < whole.size() && whole[at + 1] == whole[at]) {
        out_.append(text.slice(at, at + 1));
        begin = at + 2;
        continue;
      }
      const std::size_t end = whole.find_first_of("{}", at + 1);
      if (whole[at] == '}' || end == whole.npos || whole[end] == '{') {
        meter_.unsupported(line_, "a format with an unmatched or nested brace");
        return {};
      }
      if (!write_field(whole.substr(at + 1, end - at - 1))) return {};
      begin = end + 1;
    }
    out_.append(text.slice(begin, text.size()));
    return text_value(meter_, std::move(out_));
  }

 private:
  bool write_field(std::string_view field) {
    const std::size_t name_end = std::min(field.find_first_of("!:"), field.size());
    Value value = value_of(field.substr(0, name_end));
    field.remove_prefix(name_end);
    if (field.starts_with("!r") || field.starts_with("!s")) {
      const auto shown =
          field[1] == 'r' ? represented(meter_, value, line_) : printed(meter_, value, line_);
      if (!shown) return false;
      value = Value::marked(*shown);
      field.remove_prefix(2);
    }
    FormatSpec spec;
    if (field.starts_with(':')) {
      field.remove_prefix(1);
      read_spec(field, spec);
    }
    if (!field.empty()) meter_.unsupported(line_, "a format with '" + std::string(field) + "'");
    if (meter_.error()) return false;
    const auto text = formatted(meter_, value, spec, line_);
    if (!text || !meter_.spend_bytes(text->size())) return false;
    out_.append(*text);
    return true;
  }

  // The value of "", "0", "name", each with any number of ".name" and "[key]".
  Value value_of(std::string_view path) {
    const std::size_t end = std::min(path.find_first_of(".["), path.size());
    const std::string_view first = path.substr(0, end);
    Value value;
    if (first.empty()) {
      value = positional(next_++);
    } else if (const auto place = index_of(first)) {
      value = positional(static_cast<std::size_t>(*place));
    } else {
      const Value* found = arguments_.find(static_cast<std::size_t>(-1), first);
      if (found == nullptr) {
        meter_.fail(line_, "format() has no argument '" + std::string(first) + "'");
        return {};
      }
      value = *found;
    }
    for (path.remove_prefix(end); !path.empty() && meter_.spend(1);) {
      const bool is_index = path[0] == '[';
      path.remove_prefix(1);
      const std::size_t stop = std::min(path.find_first_of(is_index ? "]" : ".["), path.size());
      const std::string key(path.substr(0, stop));
      path.remove_prefix(std::min(path.size(), stop + (is_index ? 1 : 0)));
      if (is_index) {
        const auto place = index_of(key);
        value = item_of(meter_, value, place ? Value{*place} : Value::text(key), line_);
      } else {
        value = attribute_of(meter_, value, key, line_);
      }
    }
    return value;
  }

  Value positional(std::size_t i) {
    if (i < arguments_.positional.size()) return arguments_.positional[i];
    meter_.fail(line_, "format() has no argument " + std::to_string(i));
    return {};
  }

  static std::optional<std::int64_t> index_of(std::string_view digits) {
    std::int64_t index = 0;
    const auto parsed = std::from_chars(digits.data(), digits.data() + digits.size(), index);
    const bool whole = parsed.ec == std::errc() && parsed.ptr == digits.data() + digits.size();
    return whole && index >= 0 ? std::optional(index) : std::nullopt;
  }

  // [[fill]align][sign][0][width][,][.precision][type]
  void read_spec(std::string_view& rest, FormatSpec& spec) {
    const auto is_align = [&rest](std::size_t at) {
      return at < rest.size() && std::string_view("<>^=").find(rest[at]) != std::string_view::npos;
    };
    const auto take_any = [&rest](std::string_view set) {
      const bool found = !rest.empty() && set.find(rest[0]) != set.npos;
      const char c = found ? rest[0] : '\0';
      if (found) rest.remove_prefix(1);
      return c;
    };
    if (is_align(1)) {
      spec.fill = rest[0];
      rest.remove_prefix(1);
    }
    spec.align = take_any("<>^=");
    if (const char sign = take_any("+- ")) spec.sign = sign;
    if (rest.starts_with('0') && spec.align == '\0') {
      spec.align = '=';
      spec.fill = "0";
    }
    const auto width = take_digits(rest);
    spec.width = width.value_or(0);
    spec.commas = take_any(",") != '\0';
    if (take_any(".") != '\0') spec.precision = take_digits(rest);
    if (!width) meter_.unsupported(line_, "a format of that width");
    spec.type = take_any("sdfxX");
  }

  Meter& meter_;
  const Arguments& arguments_;
  int line_;
  std::size_t next_ = 0;
  MarkedText out_;
};

}  // namespace

Value brace_format(Meter& meter, const MarkedText& text, const Arguments& arguments, int line) {
  return BraceFormat(meter, arguments, line).run(text);
}

}  // namespace edgedraft::chat
