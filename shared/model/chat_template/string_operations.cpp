#include "shared/model/chat_template/string_operations.h"

#include <utf8proc.h>

#include <algorithm>

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
  const auto beginning = name == "upper" || name == "words" ? utf8proc_toupper : utf8proc_totitle;
  const std::string_view whole = text.text();
  MarkedText out;
  bool begins = name != "lower";
  for (std::size_t at = 0; at < whole.size();) {
    const std::size_t count = first_character(whole.substr(at));
    const std::string_view character = whole.substr(at, count);
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

}  // namespace edgedraft::chat
