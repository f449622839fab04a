#include "shared/model/chat_template/string_operations.h"

#include <utf8proc.h>

#include <algorithm>
#include <cstdio>
#include <utility>

#include "shared/model/utf8.h"

namespace edgedraft::chat {
namespace {

// Python's str.isspace, in UTF-8.
constexpr std::string_view kSpaces[] = {"\t",     "\n",     "\v",     "\f",     "\r",     "\x1C",
                                        "\x1D",   "\x1E",   "\x1F",   " ",      "\u0085", "\u00A0",
                                        "\u1680", "\u2000", "\u2001", "\u2002", "\u2003", "\u2004",
                                        "\u2005", "\u2006", "\u2007", "\u2008", "\u2009", "\u200A",
                                        "\u2028", "\u2029", "\u202F", "\u205F", "\u3000"};

bool is_space(std::string_view character) {
  return std::ranges::find(kSpaces, character) != std::end(kSpaces);
}

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

// Bytes of the first character; 1 for invalid UTF-8.
std::size_t first_character(std::string_view text) {
  const Utf8Front front = utf8_front(text);
  return front.kind == Utf8Front::Kind::character ? front.byte_count : 1;
}

std::size_t last_character(std::string_view text) {
  std::size_t count = 1;
  while (count < 4 && count < text.size() && is_continuation(text[text.size() - count])) ++count;
  return utf8_front(text.substr(text.size() - count)).byte_count == count ? count : 1;
}

// Negative for invalid UTF-8.
utf8proc_int32_t code_of(std::string_view character) {
  utf8proc_int32_t code = -1;
  utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(character.data()),
                   static_cast<utf8proc_ssize_t>(character.size()), &code);
  return code;
}

bool has_case(std::string_view character) {
  const utf8proc_int32_t code = code_of(character);
  if (code < 0) return false;
  const utf8proc_category_t category = utf8proc_category(code);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT;
}

bool is_upper(std::string_view character) {
  const utf8proc_int32_t code = code_of(character);
  return code >= 0 && utf8proc_category(code) == UTF8PROC_CATEGORY_LU;
}

// Python's str.isprintable: neither a control character nor a space other than ' '.
bool is_printable(utf8proc_int32_t code) {
  switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
    case UTF8PROC_CATEGORY_ZS:
      return code == ' ';
    default:
      return true;
  }
}

bool is_in_class(std::string_view character, std::string_view name) {
  if (name == "isspace") return is_space(character);
  const utf8proc_int32_t code = code_of(character);
  if (code < 0) return false;
  const utf8proc_category_t category = utf8proc_category(code);
  const bool letter = category >= UTF8PROC_CATEGORY_LU && category <= UTF8PROC_CATEGORY_LO;
  const bool digit = category == UTF8PROC_CATEGORY_ND;
  if (name == "isalpha") return letter;
  if (name == "isdigit") return digit;
  return letter || digit || category == UTF8PROC_CATEGORY_NL || category == UTF8PROC_CATEGORY_NO;
}

// Bytes of the line end at the start of `text`; 0 if there is none.
std::size_t line_end(std::string_view text) {
  if (text.starts_with("\r\n")) return 2;
  for (const std::string_view end :
       {"\n", "\r", "\v", "\f", "\x1C", "\x1D", "\x1E", "\u0085", "\u2028", "\u2029"}) {
    if (text.starts_with(end)) return end.size();
  }
  return 0;
}

std::string with_case(std::string_view character, utf8proc_int32_t (*mapping)(utf8proc_int32_t)) {
  const utf8proc_int32_t code = code_of(character);
  if (code < 0) return std::string(character);
  return to_utf8(static_cast<char32_t>(mapping(code)));
}

std::vector<MarkedText> split_at_spaces(const MarkedText& text, std::int64_t splits) {
  std::vector<MarkedText> parts;
  const std::string_view whole = text.text();
  std::size_t begin = 0;
  std::size_t at = 0;
  const auto skip_spaces = [&] {
    while (at < whole.size()) {
      const std::size_t count = first_character(whole.substr(at));
      if (!is_space(whole.substr(at, count))) break;
      at += count;
    }
    begin = at;
  };
  skip_spaces();
  while (at < whole.size()) {
    if (splits == 0) {
      parts.push_back(strip(text.slice(begin, whole.size()), Strip::right, std::nullopt));
      return parts;
    }
    const std::size_t count = first_character(whole.substr(at));
    if (!is_space(whole.substr(at, count))) {
      at += count;
      continue;
    }
    parts.push_back(text.slice(begin, at));
    --splits;
    skip_spaces();
  }
  if (begin < whole.size()) parts.push_back(text.slice(begin, whole.size()));
  return parts;
}

}  // namespace

MarkedText strip(const MarkedText& text, Strip ends, std::optional<std::string_view> characters) {
  const auto goes = [&](std::string_view character) {
    return characters ? characters->find(character) != characters->npos : is_space(character);
  };
  std::string_view rest = text.text();
  std::size_t begin = 0;
  while (ends != Strip::right && !rest.empty()) {
    const std::size_t count = first_character(rest);
    if (!goes(rest.substr(0, count))) break;
    rest.remove_prefix(count);
    begin += count;
  }
  while (ends != Strip::left && !rest.empty()) {
    const std::size_t count = last_character(rest);
    if (!goes(rest.substr(rest.size() - count))) break;
    rest.remove_suffix(count);
  }
  return text.slice(begin, begin + rest.size());
}

MarkedText change_case(const MarkedText& text, std::string_view name) {
  const auto ends_word = [name](std::string_view character) {
    if (name == "title") return !has_case(character);
    return name == "words" && (is_space(character) ||
                               std::string_view("-({[<").find(character) != std::string_view::npos);
  };
  const bool to_upper = name == "upper" || name == "words" || name == "swapcase";
  const auto beginning = to_upper ? utf8proc_toupper : utf8proc_totitle;
  const std::string_view whole = text.text();
  MarkedText out;
  bool begins = name != "lower";
  for (std::size_t at = 0; at < whole.size();) {
    const std::size_t count = first_character(whole.substr(at));
    const std::string_view character = whole.substr(at, count);
    if (name == "swapcase") begins = !is_upper(character);
    out.append(with_case(character, begins ? beginning : utf8proc_tolower),
               text.is_foreign(at, at + count));
    if (name != "upper" && name != "lower") begins = ends_word(character);
    at += count;
  }
  return out;
}

std::int64_t character_count(std::string_view text) {
  return std::count_if(text.begin(), text.end(), [](char c) { return !is_continuation(c); });
}

std::vector<std::size_t> character_bounds(std::string_view text) {
  std::vector<std::size_t> bounds;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!is_continuation(text[i])) bounds.push_back(i);
  }
  bounds.push_back(text.size());
  return bounds;
}

std::vector<MarkedText> split(const MarkedText& text, std::string_view separator,
                              std::int64_t splits) {
  if (separator.empty()) return split_at_spaces(text, splits);
  std::vector<MarkedText> parts;
  std::size_t begin = 0;
  for (std::size_t at = 0;
       splits != 0 && (at = text.text().find(separator, begin)) != std::string::npos; --splits) {
    parts.push_back(text.slice(begin, at));
    begin = at + separator.size();
  }
  parts.push_back(text.slice(begin, text.size()));
  return parts;
}

std::vector<MarkedText> split_right(const MarkedText& text, std::string_view separator,
                                    std::int64_t splits) {
  std::vector<MarkedText> parts;
  std::size_t end = text.size();
  for (; splits != 0 && end >= separator.size(); --splits) {
    const std::size_t at = text.text().rfind(separator, end - separator.size());
    if (at == std::string::npos) break;
    parts.push_back(text.slice(at + separator.size(), end));
    end = at;
  }
  parts.push_back(text.slice(0, end));
  std::ranges::reverse(parts);
  return parts;
}

std::vector<MarkedText> split_lines(const MarkedText& text, bool keeps_ends) {
  std::vector<MarkedText> lines;
  const std::string_view whole = text.text();
  std::size_t begin = 0;
  for (std::size_t at = 0; at < whole.size();) {
    const std::size_t end = line_end(whole.substr(at));
    if (end > 0) {
      lines.push_back(text.slice(begin, keeps_ends ? at + end : at));
      begin = at + end;
    }
    at += std::max<std::size_t>(end, 1);
  }
  if (begin < whole.size()) lines.push_back(text.slice(begin, whole.size()));
  return lines;
}

bool is_of_class(std::string_view text, std::string_view name) {
  if (name == "islower" || name == "isupper") {
    // Any letters with case, all of that case.
    bool found = false;
    for (std::size_t count = 0; !text.empty(); text.remove_prefix(count)) {
      count = first_character(text);
      if (!has_case(text.substr(0, count))) continue;
      if (is_upper(text.substr(0, count)) != (name == "isupper")) return false;
      found = true;
    }
    return found;
  }
  if (text.empty()) return false;
  for (std::size_t count = 0; !text.empty(); text.remove_prefix(count)) {
    count = first_character(text);
    if (!is_in_class(text.substr(0, count), name)) return false;
  }
  return true;
}

MarkedText pad(const MarkedText& text, std::size_t width, char align, const MarkedText& fill) {
  const auto count = static_cast<std::size_t>(character_count(text.text()));
  const std::size_t missing = width > count ? width - count : 0;
  const std::size_t before = align == '<' ? 0 : align == '>' ? missing : missing / 2;
  MarkedText padded;
  for (std::size_t i = 0; i < before; ++i) padded.append(fill);
  padded.append(text);
  for (std::size_t i = before; i < missing; ++i) padded.append(fill);
  return padded;
}

MarkedText escape_html(const MarkedText& text) {
  constexpr std::pair<char, std::string_view> kNames[] = {
      {'&', "&amp;"}, {'<', "&lt;"}, {'>', "&gt;"}, {'\'', "&#39;"}, {'"', "&#34;"}};
  MarkedText escaped;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.size(); ++at) {
    const auto* found =
        std::ranges::find(kNames, text.text()[at], &std::pair<char, std::string_view>::first);
    if (found == std::end(kNames)) continue;
    escaped.append(text.slice(begin, at));
    escaped.append(found->second, text.is_foreign(at, at + 1));
    begin = at + 1;
  }
  escaped.append(text.slice(begin, text.size()));
  return escaped;
}

std::string quoted_like_python(std::string_view text) {
  const bool has_single = text.find('\'') != text.npos;
  const char quote = has_single && text.find('"') == text.npos ? '"' : '\'';
  std::string quoted(1, quote);
  const auto add_code = [&quoted](const char* format, unsigned code) {
    char escape[16];
    std::snprintf(escape, sizeof escape, format, code);
    quoted += escape;
  };
  for (std::size_t count = 0; !text.empty(); text.remove_prefix(count)) {
    count = first_character(text);
    const std::string_view character = text.substr(0, count);
    const utf8proc_int32_t code = code_of(character);
    const auto number = static_cast<unsigned>(code);
    if (character[0] == quote || character == "\\") {
      quoted.append("\\").append(character);
    } else if (character == "\n") {
      quoted += "\\n";
    } else if (character == "\r") {
      quoted += "\\r";
    } else if (character == "\t") {
      quoted += "\\t";
    } else if (code < 0) {
      add_code("\\x%02x", static_cast<unsigned char>(character[0]));
    } else if (is_printable(code)) {
      quoted += character;
    } else {
      add_code(code < 0x100 ? "\\x%02x" : code < 0x10000 ? "\\u%04x" : "\\U%08x", number);
    }
  }
  return quoted += quote;
}

}  // namespace edgedraft::chat
