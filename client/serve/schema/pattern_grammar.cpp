#include "client/serve/schema/text_grammars.h"

#include <algorithm>
#include <array>
#include <cstdio>
#include <utility>
#include <vector>

#include "client/serve/schema/schema_grammar.h"
#include "shared/base/ascii.h"
#include "shared/model/utf8.h"

namespace edgedraft::client {
namespace {

// Bounds the grammar of one pattern; longer patterns are not enforced.
constexpr std::size_t kPatternBytesMax = 1024;
constexpr std::size_t kPatternDepthMax = 16;
constexpr std::uint32_t kPatternRepeatsMax = 1024;

struct Range {
  char32_t first;
  char32_t last;
};
using CodePoints = std::vector<Range>;

const CodePoints kDigits = {{'0', '9'}};
const CodePoints kWordCharacters = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
const CodePoints kSpaces = {{'\t', '\r'},     {' ', ' '},       {0xA0, 0xA0},     {0x1680, 0x1680},
                            {0x2000, 0x200A}, {0x2028, 0x2029}, {0x202F, 0x202F}, {0x205F, 0x205F},
                            {0x3000, 0x3000}, {0xFEFF, 0xFEFF}};
const CodePoints kLineEnds = {{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}};
// JSON escapes these, and surrogates are not characters.
const CodePoints kNotPlain = {{0, 0x1F}, {'"', '"'}, {'\\', '\\'}, {0x7F, 0x7F}, {0xD800, 0xDFFF}};

CodePoints complement(CodePoints ranges) {
  std::ranges::sort(ranges, {}, &Range::first);
  CodePoints others;
  char32_t next = 0;
  for (const Range& range : ranges) {
    if (range.first > next) others.push_back({next, range.first - 1});
    next = std::max<char32_t>(next, range.last + 1);
  }
  if (next <= kCodePointMax) others.push_back({next, kCodePointMax});
  return others;
}

void append(CodePoints& to, const CodePoints& more) {
  to.insert(to.end(), more.begin(), more.end());
}

bool contains(const CodePoints& set, char32_t c) {
  return std::ranges::any_of(set, [&](const Range& r) { return r.first <= c && c <= r.last; });
}

// Writes a character as in a grammar's class.
std::string written(char32_t c) {
  if (c < 0x80 && (is_ascii_letter(static_cast<char>(c)) || is_ascii_digit(static_cast<char>(c)))) {
    return {static_cast<char>(c)};
  }
  std::array<char, 16> text{};
  std::snprintf(text.data(), text.size(), c < 0x80 ? "\\x%02x" : "\\U%08x",
                static_cast<unsigned>(c));
  return text.data();
}

// Rule for one of these characters as JSON writes it. Empty if there is none.
std::string rule_of(const CodePoints& set) {
  CodePoints excluded = complement(set);
  append(excluded, kNotPlain);
  std::string plain;
  for (const Range& range : complement(std::move(excluded))) {
    plain += written(range.first);
    if (range.last > range.first) plain += '-' + written(range.last);
  }
  std::string rule = plain.empty() ? "" : '[' + plain + ']';
  int count = plain.empty() ? 0 : 1;
  for (const auto& [c, escape] :
       {std::pair(U'"', "\\\""), std::pair(U'\\', "\\\\"), std::pair(U'\b', "\\b"),
        std::pair(U'\f', "\\f"), std::pair(U'\n', "\\n"), std::pair(U'\r', "\\r"),
        std::pair(U'\t', "\\t")}) {
    if (!contains(set, c)) continue;
    rule += (count++ == 0 ? "" : " | ") + SchemaGrammar::literal(escape);
  }
  return count > 1 ? '(' + rule + ')' : rule;
}

class PatternParser {
 public:
  explicit PatternParser(std::string_view text) : text_(text) {}

  std::optional<PatternGrammar> parse() {
    std::string body;
    do {
      const bool begins = take("^");
      const std::string sequence = parse_sequence(0).text;
      const bool ends = take("$");
      body += std::string(body.empty() ? "" : " | ") + (begins ? "" : "char* ") + sequence +
              (ends ? "" : " char*");
    } while (take("|"));
    if (failed_ || at_ < text_.size() || repeats_ > kPatternRepeatsMax) return std::nullopt;
    return PatternGrammar{.body = std::move(body), .repeats = repeats_, .is_exact = is_exact_};
  }

 private:
  struct Piece {
    std::string text = "\"\"";
    bool is_nullable = true;
  };

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }
  Piece fail() {
    failed_ = true;
    return {};
  }

  Piece parse_sequence(std::size_t depth) {
    Piece sequence;
    while (!failed_ && at_ < text_.size() &&
           std::string_view("|)$").find(peek()) == std::string_view::npos) {
      const Piece atom = parse_repetition(parse_atom(depth));
      sequence.text += ' ' + atom.text;
      sequence.is_nullable = sequence.is_nullable && atom.is_nullable;
    }
    return sequence;
  }

  Piece parse_atom(std::size_t depth) {
    if (take("(")) return parse_group(depth);
    CodePoints set;
    if (take("[")) {
      set = parse_class();
    } else if (take(".")) {
      set = complement(kLineEnds);
    } else if (take("\\b") || take("\\B")) {
      is_exact_ = false;
      return {};
    } else if (std::string_view("*+?^").find(peek()) != std::string_view::npos) {
      return fail();
    } else {
      parse_character(set);
    }
    const std::string rule = failed_ ? "" : rule_of(set);
    return rule.empty() ? fail() : Piece{.text = rule, .is_nullable = false};
  }

  Piece parse_group(std::size_t depth) {
    if (depth >= kPatternDepthMax) return fail();
    if (take("?=") || take("?!") || take("?<=") || take("?<!")) {
      is_exact_ = false;
      skip_group();
      return {};
    }
    if (take("?<")) {
      const std::size_t end = text_.find('>', at_);
      if (end == std::string_view::npos) return fail();
      at_ = end + 1;
    } else if (!take("?:") && peek() == '?') {
      return fail();
    }
    Piece group{.text = "(", .is_nullable = false};
    do {
      const Piece one = parse_sequence(depth + 1);
      group.text += (group.text.size() > 1 ? " | " : "") + one.text;
      group.is_nullable = group.is_nullable || one.is_nullable;
    } while (take("|"));
    if (!take(")")) return fail();
    group.text += ')';
    return group;
  }

  // Skips past its closing parenthesis.
  void skip_group() {
    bool in_class = false;
    for (std::size_t open = 1; open > 0; ++at_) {
      if (at_ >= text_.size()) {
        at_ = text_.size();
        fail();
        return;
      }
      const char c = peek();
      if (c == '\\') ++at_;
      if (c == '[') in_class = true;
      if (c == ']') in_class = false;
      if (!in_class && c == '(') ++open;
      if (!in_class && c == ')') --open;
    }
  }

  Piece parse_repetition(Piece piece) {
    const std::size_t begin = at_;
    std::uint32_t least = 0;
    std::uint32_t most = 0;  // upper bound of counts
    if (take("*") || take("?")) {
    } else if (take("+")) {
      least = most = 1;
    } else if (take("{")) {
      const bool has_least = parse_number(least);
      most = least;
      if (take(",") && !parse_number(most)) most = least;
      if (!has_least || !take("}")) {
        at_ = begin;  // a literal brace
        return piece;
      }
    } else {
      return piece;
    }
    const std::string_view sign = text_.substr(begin, at_ - begin);
    take("?");  // lazy: matches the same texts
    // A grammar must not repeat an item that may be empty.
    if (most < least || (piece.is_nullable && sign != "?")) return fail();
    repeats_ += std::max(most, 1u);
    if (repeats_ > kPatternRepeatsMax) return fail();
    piece.text += sign;
    piece.is_nullable = piece.is_nullable || least == 0;
    return piece;
  }

  bool parse_number(std::uint32_t& number) {
    const std::size_t begin = at_;
    for (number = 0; is_ascii_digit(peek()) && number <= kPatternRepeatsMax; ++at_) {
      number = 10 * number + static_cast<std::uint32_t>(peek() - '0');
    }
    if (number > kPatternRepeatsMax) fail();
    return at_ > begin;
  }

  CodePoints parse_class() {
    const bool inverted = take("^");
    CodePoints set;
    while (!failed_ && !take("]")) {
      CodePoints one;
      const bool is_single = parse_character(one, /*in_class=*/true);
      const bool is_range = is_single && peek() == '-' && text_.substr(at_, 2) != "-]";
      if (is_range) {
        ++at_;
        CodePoints last;
        if (!parse_character(last, /*in_class=*/true) || failed_ || last[0].last < one[0].first) {
          fail();
          return {};
        }
        one[0].last = last[0].last;
      }
      append(set, one);
    }
    return inverted ? complement(std::move(set)) : set;
  }

  // Returns true for one character, false for a class escape.
  bool parse_character(CodePoints& set, bool in_class = false) {
    if (at_ >= text_.size()) {
      fail();
      return false;
    }
    if (!take("\\")) return add(set, take_character());
    const char escape = peek();
    if (at_ < text_.size()) ++at_;
    constexpr std::string_view kWritten = "tnrfv";
    constexpr std::string_view kMeant = "\t\n\r\f\v";
    if (const std::size_t known = kWritten.find(escape); known != std::string_view::npos) {
      return add(set, static_cast<unsigned char>(kMeant[known]));
    }
    switch (escape) {
      case 'd':
      case 'D':
        append(set, escape == 'd' ? kDigits : complement(kDigits));
        return false;
      case 'w':
      case 'W':
        append(set, escape == 'w' ? kWordCharacters : complement(kWordCharacters));
        return false;
      case 's':
      case 'S':
        append(set, escape == 's' ? kSpaces : complement(kSpaces));
        return false;
      case 'x':
        return add(set, parse_hexadecimal(2));
      case 'u':
        if (!take("{")) return add(set, parse_hexadecimal(4));
        {
          const std::size_t end = std::min(text_.find('}', at_), at_ + 7);
          const char32_t c = parse_hexadecimal(end - at_);
          if (!take("}")) fail();
          return add(set, c);
        }
      default:
        break;
    }
    if (escape == 'b' && in_class) return add(set, '\b');
    // Backreferences, properties, control letters, or the pattern's end.
    if (escape == '\0' || is_ascii_letter(escape) || is_ascii_digit(escape)) fail();
    if (failed_) return false;
    --at_;
    return add(set, take_character());
  }

  char32_t take_character() {
    const std::string_view rest = text_.substr(at_);
    at_ += utf8_front(rest).byte_count;
    return utf8_code_point(rest);
  }

  bool add(CodePoints& set, char32_t c) {
    // Half of a surrogate pair is not a character.
    if (!is_character(c)) fail();
    set.push_back({c, c});
    return true;
  }

  char32_t parse_hexadecimal(std::size_t digits) {
    const std::string_view text = text_.substr(at_, digits);
    at_ += text.size();
    const auto code = text.size() == digits ? hex_number(text) : std::nullopt;
    if (!code) fail();
    return code.value_or(0);
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::uint32_t repeats_ = 0;
  bool is_exact_ = true;
  bool failed_ = false;
};

}  // namespace

std::optional<PatternGrammar> pattern_grammar(std::string_view pattern) {
  if (pattern.size() > kPatternBytesMax) return std::nullopt;
  return PatternParser(pattern).parse();
}

}  // namespace edgedraft::client
