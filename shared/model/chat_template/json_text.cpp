#include "shared/model/chat_template/json_text.h"

#include <cstdio>
#include <string>
#include <string_view>
#include <utility>

#include "shared/model/chat_template/json_value.h"
#include "shared/model/chat_template/operators.h"

namespace edgedraft::chat {
namespace {

std::string json_quoted(std::string_view text) {
  std::string out = "\"";
  for (const char c : text) {
    switch (c) {
      case '"':
        out += "\\\"";
        break;
      case '\\':
        out += "\\\\";
        break;
      case '\n':
        out += "\\n";
        break;
      case '\r':
        out += "\\r";
        break;
      case '\t':
        out += "\\t";
        break;
      case '\b':
        out += "\\b";
        break;
      case '\f':
        out += "\\f";
        break;
      default:
        if (static_cast<unsigned char>(c) < 0x20) {
          char code[8];
          std::snprintf(code, sizeof code, "\\u%04x", static_cast<unsigned>(c));
          out += code;
        } else {
          out += c;
        }
    }
  }
  return out += '"';
}

// Escapes shift marks, so a text with any foreign part becomes entirely foreign.
MarkedText quoted_as_json(const MarkedText& text) {
  std::string json = json_quoted(text.text());
  return text.has_foreign() ? MarkedText::foreign(std::move(json))
                            : MarkedText::own(std::move(json));
}

class Writer {
 public:
  Writer(Meter& meter, std::int64_t indent, int line)
      : meter_(meter), indent_(indent), line_(line) {}

  // Recursion is bounded: values nest at most kTemplateDepthMax deep.
  void write(const Value& value, std::size_t level) {
    if (!meter_.spend(1)) return;
    if (const MarkedText* text = value.as_marked()) {
      add(quoted_as_json(*text));
    } else if (const auto* list = value.as_list()) {
      write_group("[", "]", list->size(), level,
                  [&](std::size_t i) { write((*list)[i], level + 1); });
    } else if (const Map* map = value.as_map()) {
      write_group("{", "}", map->entries.size(), level, [&](std::size_t i) {
        add(quoted_as_json(map->entries[i].first));
        add(MarkedText::own(": "));
        write(map->entries[i].second, level + 1);
      });
    } else if (value.is_none()) {
      add(MarkedText::own("null"));
    } else if (value.is_boolean()) {
      add(MarkedText::own(value.truthy() ? "true" : "false"));
    } else if (value.as_integer() != nullptr) {
      add(MarkedText::own(std::to_string(*value.as_integer())));
    } else if (value.as_fraction() != nullptr) {
      add(MarkedText::own(fraction_text(*value.as_fraction())));
    } else {
      meter_.fail(line_, "cannot convert " + value.type_name() + " to JSON");
    }
  }

  MarkedText take() { return std::move(out_); }

 private:
  template <class WriteItem>
  void write_group(const char* open, const char* close, std::size_t count, std::size_t level,
                   WriteItem write_item) {
    add(MarkedText::own(open));
    for (std::size_t i = 0; i < count && !meter_.error(); ++i) {
      if (i > 0) add(MarkedText::own(indent_ < 0 ? ", " : ","));
      new_line(level + 1);
      write_item(i);
    }
    if (count > 0) new_line(level);
    add(MarkedText::own(close));
  }

  void new_line(std::size_t level) {
    if (indent_ < 0) return;
    add(MarkedText::own("\n" + std::string(level * static_cast<std::size_t>(indent_), ' ')));
  }

  void add(const MarkedText& text) {
    if (meter_.spend_bytes(text.size())) out_.append(text);
  }

  Meter& meter_;
  std::int64_t indent_;
  int line_;
  MarkedText out_;
};

}  // namespace

Value to_json(Meter& meter, const Value& value, std::int64_t indent, int line) {
  if (indent > 16) {
    meter.unsupported(line, "tojson with that indent");
    return {};
  }
  Writer writer(meter, indent, line);
  writer.write(value, 0);
  return text_value(meter, writer.take());
}

}  // namespace edgedraft::chat
