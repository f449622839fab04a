#include "shared/model/chat_template/lexer.h"

#include <algorithm>
#include <optional>

#include "shared/base/ascii.h"

namespace edgedraft::chat {
namespace {

constexpr std::string_view kAsciiSpaces = " \t\n\r\f\v";
constexpr std::size_t kIntegerDigitsMax = 9;
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
    if (is_ascii_digit(c) || is_name_start(c)) {
      const bool is_name = is_name_start(c);
      std::size_t count = 1;
      while (count < rest().size() &&
             (is_ascii_digit(rest()[count]) || is_name_start(rest()[count]))) {
        if (!is_name && !is_ascii_digit(rest()[count]))
          return fail("a number that is not an integer");
        ++count;
      }
      const bool has_fraction =
          count + 1 < rest().size() && rest()[count] == '.' && is_ascii_digit(rest()[count + 1]);
      if (!is_name && has_fraction) return fail("a number that is not an integer");
      if (!is_name && count > kIntegerDigitsMax) return fail("a number of that size");
      add(is_name ? Token::Kind::name : Token::Kind::integer, std::string(rest().substr(0, count)));
      return advance(count);
    }
    for (const std::string_view symbol : kSymbols) {
      if (!rest().starts_with(symbol)) continue;
      add(Token::Kind::symbol, std::string(symbol));
      return advance(symbol.size());
    }
    fail(std::string("the character '") + (c >= ' ' && c < 127 ? c : '?') + "'");
  }

  void lex_string() {
    const char quote = rest()[0];
    std::string text;
    std::size_t i = 1;
    for (; i < rest().size() && rest()[i] != quote; ++i) {
      if (rest()[i] != '\\') {
        text += rest()[i];
        continue;
      }
      if (++i == rest().size()) break;
      switch (rest()[i]) {
        case 'n':
          text += '\n';
          break;
        case 't':
          text += '\t';
          break;
        case 'r':
          text += '\r';
          break;
        case '\\':
        case '\'':
        case '"':
          text += rest()[i];
          break;
        default:
          return fail("the escape \\" + std::string(1, rest()[i]) + " in a string");
      }
    }
    if (i >= rest().size()) return fail("an unterminated string");
    add(Token::Kind::string, std::move(text));
    advance(i + 1);
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
