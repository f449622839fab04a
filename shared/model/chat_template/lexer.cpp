#include "shared/model/chat_template/lexer.h"

#include <algorithm>
#include <charconv>
#include <cstdint>
#include <optional>

#include "shared/base/ascii.h"
#include "shared/model/utf8.h"

namespace edgedraft::chat {
namespace {

constexpr std::string_view kAsciiSpaces = " \t\n\r\f\v";
// Longest first.
constexpr std::string_view kSymbols[] = {"==", "!=", "<=", ">=", "//", "**", "+", "-", "*",
                                         "/",  "%",  "~",  "<",  ">",  "=",  "(", ")", "[",
                                         "]",  "{",  "}",  ".",  ",",  ":",  "|"};

bool is_name_start(char c) {
  return is_ascii_letter(c) || c == '_';
}

class Lexer {
 public:
  explicit Lexer(std::string source) : source_(std::move(source)) {}

  Result<std::vector<Token>> run() {
    while (at_ < source_.size() && !error_) lex_text_and_tag();
    if (error_) return *error_;
    add(Token::Kind::end, "");
    return std::move(tokens_);
  }

 private:
  void fail(const std::string& what) {
    if (!error_) error_ = unsupported_at(line_, what);
  }

  void add(Token::Kind kind, std::string text) {
    tokens_.push_back({kind, std::move(text), line_});
  }

  std::string_view rest() const { return std::string_view(source_).substr(at_); }

  void advance(std::size_t count) {
    line_ += static_cast<int>(std::count(source_.begin() + static_cast<std::ptrdiff_t>(at_),
                                         source_.begin() + static_cast<std::ptrdiff_t>(at_ + count),
                                         '\n'));
    at_ += count;
  }

  void lex_text_and_tag() {
    std::size_t tag = at_;
    for (; tag < source_.size(); ++tag) {
      if (source_[tag] != '{' || tag + 1 == source_.size()) continue;
      const char next = source_[tag + 1];
      if (next == '{' || next == '%' || next == '#') break;
    }
    std::string text = source_.substr(at_, tag - at_);
    if (tag < source_.size()) strip_before_tag(text, tag);
    if (!text.empty()) add(Token::Kind::text, std::move(text));
    advance(tag - at_);
    if (tag == source_.size()) return;

    const char kind = source_[tag + 1];
    advance(2);
    if (kind == '#') return skip_comment();
    if (at_ < source_.size() && (source_[at_] == '-' || source_[at_] == '+')) advance(1);
    if (kind == '%' && at_block("raw")) return lex_raw();
    add(kind == '{' ? Token::Kind::output_begin : Token::Kind::block_begin, "");
    lex_inside(kind == '{' ? "}}" : "%}");
  }

  // {%- strips all white space before the tag; {% strips its line's if nothing else precedes it
  // there.
  void strip_before_tag(std::string& text, std::size_t tag) const {
    const char mark = tag + 2 < source_.size() ? source_[tag + 2] : '\0';
    if (mark == '-') {
      text.erase(text.find_last_not_of(kAsciiSpaces) + 1);
      return;
    }
    if (mark == '+' || source_[tag + 1] == '{') return;
    const std::size_t newline = text.rfind('\n');
    const bool line_starts_here = at_ == 0 || source_[at_ - 1] == '\n';
    if (newline == text.npos && !line_starts_here) return;
    const std::size_t line_start = newline == text.npos ? 0 : newline + 1;
    if (text.find_first_not_of(" \t", line_start) == text.npos) text.erase(line_start);
  }

  // -%} strips all white space after the tag; %} strips one line end.
  void strip_after_tag(char mark, bool is_output) {
    if (mark == '-') {
      const std::size_t next = rest().find_first_not_of(kAsciiSpaces);
      advance(next == std::string_view::npos ? rest().size() : next);
    } else if (mark != '+' && !is_output && rest().starts_with('\n')) {
      advance(1);
    }
  }

  // Length of `name %}` with optional spaces and mark; 0 if the text differs.
  std::size_t block_length(std::string_view text, std::string_view name) const {
    std::size_t at = text.find_first_not_of(kAsciiSpaces);
    if (at == text.npos || !text.substr(at).starts_with(name)) return 0;
    at = text.find_first_not_of(kAsciiSpaces, at + name.size());
    if (at != text.npos && (text[at] == '-' || text[at] == '+')) ++at;
    return at != text.npos && text.substr(at).starts_with("%}") ? at + 2 : 0;
  }

  bool at_block(std::string_view name) const { return block_length(rest(), name) > 0; }

  // {% raw %}...{% endraw %}: text with tags.
  void lex_raw() {
    const std::size_t open = block_length(rest(), "raw");
    const char opening_mark = rest()[open - 3];
    advance(open);
    strip_after_tag(opening_mark, false);
    for (std::size_t tag = at_; (tag = source_.find("{%", tag)) != source_.npos; ++tag) {
      std::string_view after = std::string_view(source_).substr(tag + 2);
      std::size_t mark = !after.empty() && (after[0] == '-' || after[0] == '+') ? 1 : 0;
      const std::size_t close = block_length(after.substr(mark), "endraw");
      if (close == 0) continue;
      std::string text = source_.substr(at_, tag - at_);
      strip_before_tag(text, tag);
      if (!text.empty()) add(Token::Kind::text, std::move(text));
      const std::size_t end = tag + 2 + mark + close;
      const char closing_mark = source_[end - 3];
      advance(end - at_);
      return strip_after_tag(closing_mark, false);
    }
    fail("{% raw %} without its end tag");
  }

  void skip_comment() {
    const std::size_t end = rest().find("#}");
    if (end == std::string_view::npos) return fail("an unterminated comment");
    const char mark = end > 0 ? rest()[end - 1] : '\0';
    advance(end + 2);
    strip_after_tag(mark, false);
  }

  void lex_inside(std::string_view close) {
    int braces = 0;
    while (!error_) {
      const std::size_t next = rest().find_first_not_of(kAsciiSpaces);
      if (next == std::string_view::npos) return fail("an unterminated tag");
      advance(next);
      const char c = rest()[0];
      const bool marked = (c == '-' || c == '+') && rest().substr(1).starts_with(close);
      if (braces == 0 && (marked || rest().starts_with(close))) {
        const bool is_output = close == "}}";
        add(is_output ? Token::Kind::output_end : Token::Kind::block_end, "");
        advance(marked ? 3 : 2);
        return strip_after_tag(marked ? c : '\0', is_output);
      }
      if (c == '{') ++braces;
      if (c == '}') --braces;
      lex_token();
    }
  }

  void lex_token() {
    const char c = rest()[0];
    if (c == '\'' || c == '"') return lex_string();
    if (is_ascii_digit(c)) return lex_number();
    if (is_name_start(c)) {
      std::size_t count = 1;
      while (count < rest().size() &&
             (is_ascii_digit(rest()[count]) || is_name_start(rest()[count]))) {
        ++count;
      }
      add(Token::Kind::name, std::string(rest().substr(0, count)));
      return advance(count);
    }
    for (const std::string_view symbol : kSymbols) {
      if (!rest().starts_with(symbol)) continue;
      add(Token::Kind::symbol, std::string(symbol));
      return advance(symbol.size());
    }
    fail(std::string("the character '") + (c >= ' ' && c < 127 ? c : '?') + "'");
  }

  std::size_t digits_at(std::size_t at) const {
    std::size_t count = 0;
    while (at + count < rest().size() &&
           (is_ascii_digit(rest()[at + count]) || (count > 0 && rest()[at + count] == '_'))) {
      ++count;
    }
    return count;
  }

  void lex_number() {
    // After a dot digits are an index: list.0.1
    const bool is_index = !tokens_.empty() && tokens_.back().text == "." &&
                          tokens_.back().kind == Token::Kind::symbol;
    std::size_t count = digits_at(0);
    bool is_fraction = false;
    if (!is_index && rest().substr(count).starts_with('.') && digits_at(count + 1) > 0) {
      count += 1 + digits_at(count + 1);
      is_fraction = true;
    }
    if (const auto after = rest().substr(count); after.starts_with('e') || after.starts_with('E')) {
      const std::size_t sign = after.size() > 1 && (after[1] == '-' || after[1] == '+') ? 1 : 0;
      if (const std::size_t digits = digits_at(count + 1 + sign); digits > 0) {
        count += 1 + sign + digits;
        is_fraction = true;
      }
    }
    std::string text(rest().substr(0, count));
    std::erase(text, '_');
    if (count < rest().size() && is_name_start(rest()[count])) return fail("this form of number");
    std::int64_t number = 0;
    const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
    if (!is_fraction && parsed.ec != std::errc()) return fail("a number of that size");
    add(is_fraction ? Token::Kind::fraction : Token::Kind::integer, std::move(text));
    advance(count);
  }

  void lex_string() {
    const char quote = rest()[0];
    std::string text;
    std::size_t i = 1;
    while (i < rest().size() && rest()[i] != quote) {
      if (rest()[i] != '\\') {
        text += rest()[i++];
      } else if (i + 1 == rest().size() || !lex_escape(i, text)) {
        break;
      }
    }
    if (i >= rest().size() || rest()[i] != quote) return fail("an unterminated string");
    add(Token::Kind::string, std::move(text));
    advance(i + 1);
  }

  // Resolves the escape at `i` as Python does and moves behind it; unknown ones stay as they are.
  bool lex_escape(std::size_t& i, std::string& text) {
    constexpr std::string_view kLetters = "ntrabfv\\'\"\n";
    constexpr std::string_view kMeanings[] = {"\n", "\t", "\r", "\a", "\b", "\f",
                                              "\v", "\\", "'",  "\"", ""};
    const char letter = rest()[i + 1];
    i += 2;
    if (const std::size_t known = kLetters.find(letter); known != kLetters.npos) {
      text += kMeanings[known];
      return true;
    }
    if (letter >= '0' && letter <= '7') {
      --i;
      return lex_code(i, 8, 1, 3, text);
    }
    const std::size_t digits = letter == 'x' ? 2 : letter == 'u' ? 4 : letter == 'U' ? 8 : 0;
    if (digits > 0) return lex_code(i, 16, digits, digits, text);
    if (letter == 'N') {
      fail("the escape \\N in a string");
      return false;
    }
    text += {'\\', letter};
    return true;
  }

  bool lex_code(std::size_t& i, std::uint32_t base, std::size_t least, std::size_t most,
                std::string& text) {
    std::uint32_t code = 0;
    std::size_t count = 0;
    for (; count < most && i < rest().size(); ++count, ++i) {
      const int digit = hex_digit(rest()[i]);
      if (digit < 0 || static_cast<std::uint32_t>(digit) >= base) break;
      code = code * base + static_cast<std::uint32_t>(digit);
    }
    if (count < least || !is_character(code)) {
      fail("this escape of a character in a string");
      return false;
    }
    text += to_utf8(code);
    return true;
  }

  std::string source_;
  std::size_t at_ = 0;
  int line_ = 1;
  std::vector<Token> tokens_;
  std::optional<Error> error_;
};

std::string normalize_newlines(std::string_view source) {
  std::string out;
  out.reserve(source.size());
  for (std::size_t i = 0; i < source.size(); ++i) {
    if (source[i] == '\r') {
      out += '\n';
      if (i + 1 < source.size() && source[i + 1] == '\n') ++i;
    } else {
      out += source[i];
    }
  }
  if (out.ends_with('\n')) out.pop_back();  // Jinja drops one at the end
  return out;
}

}  // namespace

Error unsupported_at(int line, const std::string& what) {
  return {Errc::unsupported, "chat template, line " + std::to_string(line) + ": " + what +
                                 " is not supported" + std::string(kRemedy)};
}

Result<std::vector<Token>> tokenize(std::string_view source) {
  return Lexer(normalize_newlines(source)).run();
}

}  // namespace edgedraft::chat
