#include "shared/constraints/grammar.h"

#include <algorithm>
#include <array>
#include <bit>
#include <functional>
#include <map>
#include <optional>
#include <string>
#include <utility>

#include "shared/base/ascii.h"
#include "shared/model/utf8.h"

namespace edgedraft {
namespace {

constexpr std::uint32_t kRepeatsMax = 1024;
constexpr std::uint32_t kByteSetsMax = 4096;

struct Range {
  std::uint32_t first;
  std::uint32_t last;
};

// Splits code points of one UTF-8 length into byte ranges: cuts the range until all bytes after the
// first that differs take every value.
void split(Range range, const std::function<void(const std::vector<Range>&)>& take) {
  constexpr std::array<std::uint32_t, 4> kLastOfLength = {0x7F, 0x7FF, 0xFFFF, kCodePointMax};
  for (const std::uint32_t last : kLastOfLength) {
    if (range.first <= last && last < range.last) {
      split({range.first, last}, take);
      return split({last + 1, range.last}, take);
    }
  }
  for (std::uint32_t shift = 6; shift <= 18; shift += 6) {
    const std::uint32_t mask = (1u << shift) - 1;
    if ((range.first & ~mask) == (range.last & ~mask)) break;
    if ((range.first & mask) != 0) {
      split({range.first, range.first | mask}, take);
      return split({(range.first | mask) + 1, range.last}, take);
    }
    if ((range.last & mask) != mask) {
      split({range.first, (range.last & ~mask) - 1}, take);
      return split({range.last & ~mask, range.last}, take);
    }
  }
  const std::string first = to_utf8(range.first);
  const std::string last = to_utf8(range.last);
  std::vector<Range> bytes;
  for (std::size_t i = 0; i < first.size(); ++i) {
    bytes.push_back({static_cast<std::uint8_t>(first[i]), static_cast<std::uint8_t>(last[i])});
  }
  take(bytes);
}

// Finds rules that can match the empty text.
std::vector<bool> find_nullable(const Grammar& grammar) {
  const auto& sequences = grammar.sequences();
  std::vector<std::uint32_t> owners(sequences.size());
  std::vector<std::vector<std::uint32_t>> users(grammar.rules().size());  // sequences, by rule
  std::vector<std::size_t> left(sequences.size());  // elements that cannot match the empty text
  std::vector<std::uint32_t> empty;                 // sequences to process
  for (std::uint32_t r = 0; r < grammar.rules().size(); ++r) {
    for (const std::uint32_t s : grammar.rules()[r]) owners[s] = r;
  }
  for (std::uint32_t s = 0; s < sequences.size(); ++s) {
    left[s] = sequences[s].size();
    for (const Grammar::Element& e : sequences[s]) {
      if (e.is_rule) users[e.index].push_back(s);
    }
    if (left[s] == 0) empty.push_back(s);
  }
  std::vector<bool> nullable(grammar.rules().size());
  while (!empty.empty()) {
    const std::uint32_t rule = owners[empty.back()];
    empty.pop_back();
    if (nullable[rule]) continue;
    nullable[rule] = true;
    for (const std::uint32_t s : users[rule]) {
      if (--left[s] == 0) empty.push_back(s);
    }
  }
  return nullable;
}

// Finds a rule that begins with itself, which would never terminate.
std::optional<std::uint32_t> find_left_recursion(const Grammar& grammar) {
  const auto& rules = grammar.rules();
  const std::vector<bool> nullable = find_nullable(grammar);
  std::vector<std::vector<std::uint32_t>> begins(rules.size());
  for (std::size_t r = 0; r < rules.size(); ++r) {
    for (const std::uint32_t s : rules[r]) {
      for (const Grammar::Element& e : grammar.sequences()[s]) {
        if (!e.is_rule) break;
        begins[r].push_back(e.index);
        if (!nullable[e.index]) break;
      }
    }
  }
  enum class Seen : std::uint8_t { no, open, done };
  std::vector<Seen> seen(rules.size(), Seen::no);
  // Depth first without recursion: an untrusted grammar must not overflow the call stack.
  for (std::uint32_t start = 0; start < rules.size(); ++start) {
    if (seen[start] != Seen::no) continue;
    std::vector<std::pair<std::uint32_t, std::size_t>> path{{start, 0}};
    seen[start] = Seen::open;
    while (!path.empty()) {
      auto& [rule, next] = path.back();
      if (next == begins[rule].size()) {
        seen[rule] = Seen::done;
        path.pop_back();
        continue;
      }
      const std::uint32_t to = begins[rule][next++];
      if (seen[to] == Seen::open) return to;
      if (seen[to] == Seen::no) {
        seen[to] = Seen::open;
        path.emplace_back(to, 0);
      }
    }
  }
  return std::nullopt;
}

}  // namespace

class GrammarParser {
 public:
  explicit GrammarParser(std::string_view text) : text_(text) {}

  Result<Grammar> parse() {
    if (text_.size() > kGrammarBytesMax) {
      return Error{Errc::usage,
                   "the grammar is larger than " + std::to_string(kGrammarBytesMax) + " bytes"};
    }
    skip_space(true);
    while (!failed() && at_ < text_.size()) {
      parse_rule();
      skip_space(true);
    }
    if (!failed()) refuse_missing_rules();
    if (!failed()) {
      grammar_.root_ = names_.at("root").rule;
      if (const auto rule = find_left_recursion(grammar_)) {
        fail_in(owners_[*rule], "is left-recursive or repeats an expression that may be empty");
      }
    }
    if (error_) return *error_;
    return std::move(grammar_);
  }

 private:
  using Element = Grammar::Element;
  using Sequence = Grammar::Sequence;
  using SetWords = std::array<std::uint64_t, sizeof(ByteSet) / sizeof(std::uint64_t)>;

  struct Named {
    std::uint32_t rule;
    std::size_t at;  // offset in the text: its definition, or first use if undefined
  };

  bool failed() const { return error_.has_value(); }
  void fail(const std::string& what) { fail_at(at_, what); }
  void fail_at(std::size_t at, const std::string& what) {
    if (error_) return;
    const std::string_view before = text_.substr(0, at);
    const auto line = 1 + std::ranges::count(before, '\n');
    error_ = Error{Errc::usage, "grammar, line " + std::to_string(line) + ": " + what};
  }
  void fail_in(std::string_view rule, const std::string& what) {
    fail_at(names_.at(rule).at, "the rule '" + std::string(rule) + "' " + what);
  }

  char peek() const { return at_ < text_.size() ? text_[at_] : '\0'; }
  bool take(std::string_view what) {
    if (!text_.substr(at_).starts_with(what)) return false;
    at_ += what.size();
    return true;
  }
  // Line ends terminate a rule, except within parentheses and before alternatives.
  void skip_space(bool lines) {
    for (;;) {
      if (peek() == '#') {
        while (at_ < text_.size() && peek() != '\n') ++at_;
      } else if (at_ < text_.size() && (peek() == ' ' || peek() == '\t' ||
                                        (lines && (peek() == '\n' || peek() == '\r')))) {
        ++at_;
      } else {
        return;
      }
    }
  }

  std::string_view name() {
    const std::size_t begin = at_;
    const auto belongs = [](char c) {
      return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') ||
             c == '-' || c == '_';
    };
    while (belongs(peek())) ++at_;
    return text_.substr(begin, at_ - begin);
  }

  // `owner`: its own name, or the rule that it is part of.
  std::uint32_t new_rule(std::string_view owner) {
    grammar_.rules_.emplace_back();
    owners_.push_back(owner);
    return static_cast<std::uint32_t>(grammar_.rules_.size() - 1);
  }
  std::uint32_t new_part() { return new_rule(rule_); }
  Named& rule_named(std::string_view name, std::size_t at) {
    const auto found = names_.find(name);
    if (found != names_.end()) return found->second;
    return names_.emplace(name, Named{.rule = new_rule(name), .at = at}).first->second;
  }
  void add(std::uint32_t rule, Sequence sequence) {
    elements_ += sequence.size() + 1;
    if (elements_ > kGrammarElementsMax) return fail("the grammar is too large");
    grammar_.rules_[rule].push_back(static_cast<std::uint32_t>(grammar_.sequences_.size()));
    grammar_.sequences_.push_back(std::move(sequence));
  }
  Element bytes(const ByteSet& set) {
    const auto next = static_cast<std::uint32_t>(grammar_.byte_sets_.size());
    const auto [known, is_new] = set_indices_.try_emplace(std::bit_cast<SetWords>(set), next);
    if (is_new) grammar_.byte_sets_.push_back(set);
    if (known->second >= kByteSetsMax) fail("too many character classes");
    return {.is_rule = false, .index = known->second};
  }

  void parse_rule() {
    const std::size_t begin = at_;
    rule_ = name();
    if (rule_.empty()) return fail("expected a rule name");
    skip_space(false);
    if (!take("::=")) return fail("expected '::=' after '" + std::string(rule_) + "'");
    skip_space(true);
    Named& named = rule_named(rule_, begin);
    if (!grammar_.rules_[named.rule].empty()) {
      return fail_at(begin, "the rule '" + std::string(rule_) + "' is defined twice");
    }
    named.at = begin;
    parse_alternatives(named.rule, 0);
    if (failed()) return;
    if (at_ < text_.size() && peek() != '\n' && peek() != '\r') {
      fail(std::string("unexpected '") + peek() + "'");
    }
  }

  void parse_alternatives(std::uint32_t rule, std::size_t depth) {
    if (depth > kGrammarDepthMax) return fail("parentheses are nested too deeply");
    do {
      skip_space(true);
      add(rule, parse_sequence(depth));
      if (failed()) return;
      // An alternative may start on its own line.
      const std::size_t end = at_;
      skip_space(true);
      if (peek() != '|' && depth == 0) at_ = end;
    } while (take("|"));
  }

  Sequence parse_sequence(std::size_t depth) {
    Sequence sequence;
    for (;;) {
      const std::size_t begin = sequence.size();
      const std::size_t at = at_;
      if (peek() == '"') {
        parse_literal(sequence);
      } else if (peek() == '[') {
        sequence.push_back(parse_class());
      } else if (take(".")) {
        sequence.push_back(characters({{0, 0xD7FF}, {0xE000, kCodePointMax}}));
      } else if (take("(")) {
        const std::uint32_t group = new_part();
        parse_alternatives(group, depth + 1);
        if (!failed() && !take(")")) fail("expected ')'");
        sequence.push_back({.is_rule = true, .index = group});
      } else if (const std::string_view rule = name(); !rule.empty()) {
        sequence.push_back({.is_rule = true, .index = rule_named(rule, at).rule});
      } else {
        return sequence;
      }
      parse_repetition(sequence, begin);
      skip_space(depth > 0);
      if (failed()) return sequence;
    }
  }

  void parse_repetition(Sequence& sequence, std::size_t begin) {
    std::uint32_t least = 0;
    std::optional<std::uint32_t> most;
    if (take("*")) {
    } else if (take("+")) {
      least = 1;
    } else if (take("?")) {
      most = 1;
    } else if (take("{")) {
      least = number();
      most = least;
      if (take(",")) most = peek() == '}' ? std::nullopt : std::optional(number());
      if (!take("}")) return fail("expected '}'");
      if (most && *most < least) return fail("a repetition ends before it begins");
    } else {
      return;
    }
    // The repeated elements as a single element.
    Sequence once(sequence.begin() + static_cast<std::ptrdiff_t>(begin), sequence.end());
    sequence.resize(begin);
    if (once.empty()) return;
    if (once.size() > 1) {
      const std::uint32_t rule = new_part();
      add(rule, std::move(once));
      once = {{.is_rule = true, .index = rule}};
    }
    // Count now, not at the end of the sequence: it may have thousands of these.
    elements_ += least;
    if (elements_ > kGrammarElementsMax) return fail("the grammar is too large");
    for (std::uint32_t i = 0; i < least && !failed(); ++i) sequence.push_back(once[0]);
    if (!most) {
      const std::uint32_t rest = new_part();
      add(rest, {once[0], {.is_rule = true, .index = rest}});
      add(rest, {});
      sequence.push_back({.is_rule = true, .index = rest});
      return;
    }
    // Each optional repetition nests inside the one before.
    std::optional<std::uint32_t> inner;
    for (std::uint32_t i = least; i < *most && !failed(); ++i) {
      const std::uint32_t rest = new_part();
      Sequence some = once;
      if (inner) some.push_back({.is_rule = true, .index = *inner});
      add(rest, std::move(some));
      add(rest, {});
      inner = rest;
    }
    if (inner) sequence.push_back({.is_rule = true, .index = *inner});
  }

  std::uint32_t number() {
    std::uint32_t value = 0;
    const std::size_t begin = at_;
    while (peek() >= '0' && peek() <= '9' && value <= kRepeatsMax) {
      value = 10 * value + static_cast<std::uint32_t>(text_[at_++] - '0');
    }
    if (at_ == begin || value > kRepeatsMax) {
      fail("expected a number from 0 to " + std::to_string(kRepeatsMax));
    }
    return std::min(value, kRepeatsMax);
  }

  // A character of a literal or class; escapes are those of JSON and \xHH, \UHHHHHHHH.
  std::uint32_t character() {
    if (at_ >= text_.size()) {
      fail("unexpected end of the grammar");
      return 0;
    }
    if (take("\\")) {
      const char escape = peek();
      if (at_ < text_.size()) ++at_;
      switch (escape) {
        case 'n':
          return '\n';
        case 'r':
          return '\r';
        case 't':
          return '\t';
        case 'x':
          return hexadecimal(2);
        case 'u':
          return hexadecimal(4);
        case 'U':
          return hexadecimal(8);
        case '"':
        case '\\':
        case '[':
        case ']':
        case '-':
        case '^':
        case '/':
          return static_cast<std::uint32_t>(escape);
        default:
          fail("unknown escape");
          return 0;
      }
    }
    const std::string_view rest = text_.substr(at_);
    const Utf8Front front = utf8_front(rest);
    if (front.kind != Utf8Front::Kind::character) {
      fail("invalid UTF-8");
      return 0;
    }
    at_ += front.byte_count;
    return utf8_code_point(rest);
  }
  std::uint32_t hexadecimal(std::size_t digits) {
    const std::string_view text = text_.substr(at_, digits);
    const auto code = text.size() == digits ? hex_number(text) : std::nullopt;
    if (code) at_ += digits;
    if (code && is_character(*code)) return *code;
    fail(code ? "not a Unicode character" : "expected a hexadecimal digit");
    return 0;
  }

  void parse_literal(Sequence& sequence) {
    ++at_;
    while (!failed() && !take("\"")) {
      for (const char byte : to_utf8(character())) {
        sequence.push_back(bytes(ByteSet().set(static_cast<std::uint8_t>(byte))));
      }
      if (sequence.size() > kGrammarElementsMax) fail("the grammar is too large");
    }
  }

  Element parse_class() {
    ++at_;
    const bool inverted = take("^");
    std::vector<Range> ranges;
    while (!failed() && !take("]")) {
      Range range{};
      range.first = range.last = character();
      if (text_.substr(at_).starts_with("-") && !text_.substr(at_).starts_with("-]")) {
        ++at_;
        range.last = character();
      }
      if (range.last < range.first) fail("a range ends before it begins");
      ranges.push_back(range);
    }
    std::ranges::sort(ranges, {}, &Range::first);
    std::vector<Range> taken;
    std::uint32_t next = 0;  // first code point not covered yet
    const auto keep = [&](std::uint32_t first, std::uint32_t last) {
      // Surrogates are not characters.
      if (first <= last && first < 0xD800) taken.push_back({first, std::min(last, 0xD7FFu)});
      if (first <= last && last > 0xDFFF) taken.push_back({std::max(first, 0xE000u), last});
    };
    for (const Range& range : ranges) {
      if (inverted && range.first > next) keep(next, range.first - 1);
      if (!inverted) keep(std::max(range.first, next), range.last);
      next = std::max(next, range.last + 1);
    }
    if (inverted) keep(next, kCodePointMax);
    return characters(taken);
  }

  // One of these characters.
  Element characters(const std::vector<Range>& ranges) {
    ByteSet ascii;
    std::vector<std::vector<Range>> longer;
    for (const Range& range : ranges) {
      split(range, [&](const std::vector<Range>& bytes) {
        if (bytes.size() > 1) {
          longer.push_back(bytes);
        } else {
          for (std::uint32_t b = bytes[0].first; b <= bytes[0].last; ++b) ascii.set(b);
        }
      });
    }
    if (longer.empty()) return bytes(ascii);
    const std::uint32_t rule = new_part();
    if (ascii.any()) add(rule, {bytes(ascii)});
    for (const auto& ranges_of_bytes : longer) {
      Sequence sequence;
      for (const Range& range : ranges_of_bytes) {
        ByteSet set;
        for (std::uint32_t b = range.first; b <= range.last; ++b) set.set(b);
        sequence.push_back(bytes(set));
      }
      add(rule, std::move(sequence));
    }
    return {.is_rule = true, .index = rule};
  }

  void refuse_missing_rules() {
    // Number rules in the order in which the text names them.
    for (std::size_t r = 0; r < owners_.size(); ++r) {
      if (!grammar_.rules_[r].empty()) continue;
      return fail_in(owners_[r], "is used but not defined");
    }
    if (!names_.contains("root")) fail("the rule 'root' is missing");
  }

  std::string_view text_;
  std::size_t at_ = 0;
  std::size_t elements_ = 0;
  std::string_view rule_;  // the rule being read
  std::map<std::string_view, Named> names_;
  std::vector<std::string_view> owners_;  // by rule
  // Indices into byte_sets_. Ordered, not hashed: an attacker could force hash collisions.
  std::map<SetWords, std::uint32_t> set_indices_;
  Grammar grammar_;
  std::optional<Error> error_;
};

Result<Grammar> Grammar::parse(std::string_view text) {
  return GrammarParser(text).parse();
}

}  // namespace edgedraft
