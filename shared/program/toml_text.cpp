#include "shared/program/toml_text.h"

#include <algorithm>
#include <optional>

namespace edgedraft {
namespace {

// Walks over TOML's quotes and comments.
class Scanner {
 public:
  explicit Scanner(std::string_view text) : text_(text) {}

  // Line of the first non-ASCII character outside quotes and comments.
  std::optional<toml::source_index> find_bare() {
    constexpr std::string_view kByteOrderMark = "\xEF\xBB\xBF";
    if (text_.starts_with(kByteOrderMark)) at_ = kByteOrderMark.size();
    // True if a key or value may start here. Quotes elsewhere start no string, and the library
    // continues after them.
    bool may_begin = true;
    bool is_value = false;
    while (at_ < text_.size()) {
      const char c = text_[at_];
      if (static_cast<unsigned char>(c) >= 0x80) return line();
      if (c == '#') {
        at_ = std::min(text_.find('\n', at_), text_.size());
        continue;
      }
      if ((c == '"' || c == '\'') && may_begin) {
        skip_string(c);
        may_begin = false;
        continue;
      }
      ++at_;
      if (c == '\n' || c == ',' || (c == '{' && may_begin)) {
        may_begin = true;
        is_value = false;
      } else if (c == '=') {
        may_begin = !is_value;
        is_value = true;
      } else if (c != ' ' && c != '\t' && c != '\r' && c != '[') {
        may_begin = false;
      }
    }
    return std::nullopt;
  }

 private:
  void skip_string(char quote) {
    const std::string three(3, quote);
    const bool lines = text_.substr(at_).starts_with(three);
    at_ += lines ? 3 : 1;
    while (at_ < text_.size()) {
      const std::string_view rest = text_.substr(at_);
      if (quote == '"' && rest.front() == '\\') {
        at_ += 2;
      } else if (lines && rest.starts_with(three)) {
        at_ += 3;
        // Up to two quotes may precede the closing ones.
        for (int i = 0; i < 2 && at_ < text_.size() && text_[at_] == quote; ++i) ++at_;
        return;
      } else if (!lines && (rest.front() == quote || rest.front() == '\n')) {
        ++at_;
        return;
      } else {
        ++at_;
      }
    }
  }

  toml::source_index line() const {
    return static_cast<toml::source_index>(1 + std::ranges::count(text_.substr(0, at_), '\n'));
  }

  std::string_view text_;
  std::size_t at_ = 0;
};

}  // namespace

Result<toml::table> parse_toml(std::string_view text, const std::filesystem::path& file,
                               const std::string& line_mark) {
  const auto wrong = [&](toml::source_index line, std::string_view what) {
    return usage_error(file.string() + line_mark + std::to_string(line) + ": " + std::string(what));
  };
  if (const auto line = Scanner(text).find_bare()) {
    return wrong(*line, "letters outside ASCII are allowed only in quotes and comments");
  }
  try {
    return toml::parse(text);
  } catch (const toml::parse_error& e) {
    return wrong(e.source().begin.line, e.description());
  }
}

}  // namespace edgedraft
