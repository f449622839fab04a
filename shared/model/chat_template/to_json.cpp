#include "shared/model/chat_template/to_json.h"

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "shared/model/chat_template/operators.h"
#include "shared/model/chat_template/printing.h"

namespace edgedraft::chat {
namespace {

constexpr std::int64_t kIndentMax = 16;  // bounds white space per line

struct JsonStyle {
  bool ascii_only = false;
  std::optional<MarkedText> indent{};  // per level; nullopt: one line
  MarkedText between_items{};
  MarkedText after_name{};
  bool sorts_names = false;
};

class JsonWriter {
 public:
  JsonWriter(Meter& meter, JsonStyle style, int line)
      : meter_(meter), style_(std::move(style)), line_(line) {}

  // Recursion is bounded: values nest at most kTemplateDepthMax deep.
  void write(const Value& value, std::size_t level) {
    if (!meter_.spend(1)) return;
    if (const MarkedText* text = value.as_marked()) {
      add_quoted(*text);
    } else if (value.is(ListKind::list) || value.is(ListKind::tuple)) {
      const auto& items = *value.as_list();
      write_group("[", "]", items.size(), level,
                  [&](std::size_t i) { write(items[i], level + 1); });
    } else if (const Map* map = value.as_map()) {
      write_map(*map, level);
    } else if (value.is_none()) {
      add(MarkedText::own("null"));
    } else if (value.is_boolean()) {
      add(MarkedText::own(value.truthy() ? "true" : "false"));
    } else if (value.as_integer() != nullptr) {
      add(MarkedText::own(std::to_string(*value.as_integer())));
    } else if (const double* fraction = value.as_fraction()) {
      add(MarkedText::own(std::isnan(*fraction)    ? "NaN"
                          : !std::isinf(*fraction) ? fraction_text(*fraction)
                          : *fraction < 0          ? "-Infinity"
                                                   : "Infinity"));
    } else {
      meter_.fail(line_, "cannot convert " + value.type_name() + " to JSON");
    }
  }

  MarkedText take() { return std::move(out_); }

 private:
  void write_map(const Map& map, std::size_t level) {
    std::vector<const std::pair<Value, Value>*> entries;
    for (const auto& entry : map.entries) entries.push_back(&entry);
    if (style_.sorts_names) {
      std::ranges::stable_sort(entries, [this](const auto* a, const auto* b) {
        return !meter_.error() && apply_comparison(meter_, "<", a->first, b->first, line_);
      });
    }
    write_group("{", "}", entries.size(), level, [&](std::size_t i) {
      // Integers are written as strings.
      if (const auto* number = entries[i]->first.as_integer()) {
        add(MarkedText::own('"' + std::to_string(*number) + '"'));
      } else {
        add_quoted(*entries[i]->first.as_marked());
      }
      add(style_.after_name);
      write(entries[i]->second, level + 1);
    });
  }

  template <class WriteItem>
  void write_group(const char* open, const char* close, std::size_t count, std::size_t level,
                   WriteItem write_item) {
    add(MarkedText::own(open));
    for (std::size_t i = 0; i < count && !meter_.error(); ++i) {
      if (i > 0) add(style_.between_items);
      new_line(level + 1);
      write_item(i);
    }
    if (count > 0) new_line(level);
    add(MarkedText::own(close));
  }

  void new_line(std::size_t level) {
    if (!style_.indent) return;
    add(MarkedText::own("\n"));
    for (std::size_t i = 0; i < level && meter_.spend(1); ++i) add(*style_.indent);
  }

  // Escapes shift marks, so a text with any foreign part becomes entirely foreign.
  void add_quoted(const MarkedText& text) {
    constexpr auto kReplace = nlohmann::json::error_handler_t::replace;
    std::string json = nlohmann::json(text.text()).dump(-1, ' ', style_.ascii_only, kReplace);
    add(text.has_foreign() ? MarkedText::foreign(std::move(json))
                           : MarkedText::own(std::move(json)));
  }

  void add(const MarkedText& text) {
    if (meter_.spend_bytes(text.size())) out_.append(text);
  }

  Meter& meter_;
  JsonStyle style_;
  int line_;
  MarkedText out_;
};

bool read_indent(Meter& meter, const Value& indent, JsonStyle& style, int line) {
  if (const MarkedText* text = indent.as_marked()) {
    style.indent = *text;
  } else if (const auto spaces = number_of(indent)) {
    if (*spaces <= kIndentMax) {
      const auto count = static_cast<std::size_t>(std::max<std::int64_t>(*spaces, 0));
      style.indent = MarkedText::own(std::string(count, ' '));
    }
  } else if (indent.is_none() || indent.is_undefined()) {
    return true;
  }
  if (style.indent && style.indent->size() <= static_cast<std::size_t>(kIndentMax)) return true;
  meter.unsupported(line, "tojson with that indent");
  return false;
}

}  // namespace

Value to_json(Meter& meter, const Value& value, const Arguments& arguments, int line) {
  JsonStyle style{.ascii_only = arguments.get(0, "ensure_ascii").truthy(),
                  .sorts_names = arguments.get(3, "sort_keys").truthy()};
  if (!read_indent(meter, arguments.get(1, "indent"), style, line)) return {};
  style.between_items = MarkedText::own(style.indent ? "," : ", ");
  style.after_name = MarkedText::own(": ");
  const Value separators = arguments.get(2, "separators");
  if (const auto* pair = separators.as_indexed()) {
    if (pair->size() != 2 || !(*pair)[0].as_text() || !(*pair)[1].as_text()) {
      meter.fail(line, "the separators of tojson are not two strings");
      return {};
    }
    style.between_items = *(*pair)[0].as_marked();
    style.after_name = *(*pair)[1].as_marked();
  }
  JsonWriter writer(meter, std::move(style), line);
  writer.write(value, 0);
  return text_value(meter, writer.take());
}

}  // namespace edgedraft::chat
