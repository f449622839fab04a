#include "client/privacy/unescaped_text.h"

#include <utf8proc.h>

#include <array>
#include <charconv>
#include <optional>
#include <utility>

#include "shared/model/utf8.h"

namespace edgedraft {
namespace {

// JSON within a string of JSON within another.
constexpr std::size_t kReadingsMax = 3;

struct Escape {
  std::size_t size;
  std::string meaning;
};

struct NumberedEscape {
  std::size_t size;
  std::uint32_t code;
};

bool is_surrogate(std::uint32_t code) {
  return code >= 0xD800 && code < 0xE000;
}

std::string utf8_of(std::uint32_t code) {
  if (code > 0x10FFFF || is_surrogate(code)) return std::string(kReplacementCharacter);
  std::array<utf8proc_uint8_t, 4> bytes{};
  const utf8proc_ssize_t size =
      utf8proc_encode_char(static_cast<utf8proc_int32_t>(code), bytes.data());
  return {reinterpret_cast<const char*>(bytes.data()), static_cast<std::size_t>(size)};
}

// "\u00fc", and "\xfc" and "\U000000fc" of grammars and of Python.
std::optional<NumberedEscape> read_numbered_escape(std::string_view text) {
  if (text.size() < 2 || text[0] != '\\') return std::nullopt;
  const char kind = text[1];
  const std::size_t digits = kind == 'u' ? 4 : kind == 'x' ? 2 : kind == 'U' ? 8 : 0;
  if (digits == 0 || text.size() < 2 + digits) return std::nullopt;
  std::uint32_t code = 0;
  const char* const end = text.data() + 2 + digits;
  const auto [stopped, error] = std::from_chars(text.data() + 2, end, code, 16);
  if (error != std::errc() || stopped != end) return std::nullopt;
  return NumberedEscape{.size = 2 + digits, .code = code};
}

// Source    RFC 8259, section 7
std::optional<Escape> read_escape(std::string_view text) {
  if (auto first = read_numbered_escape(text)) {
    if (first->code >= 0xD800 && first->code < 0xDC00) {
      const auto second = read_numbered_escape(text.substr(first->size));
      if (second && second->code >= 0xDC00 && second->code < 0xE000) {
        first->size += second->size;
        first->code = 0x10000 + ((first->code - 0xD800) << 10) + (second->code - 0xDC00);
      }
    }
    return Escape{.size = first->size, .meaning = utf8_of(first->code)};
  }
  constexpr std::string_view kWritten = "nrtbf\"\\/'";
  constexpr std::string_view kMeant = "\n\r\t\b\f\"\\/'";
  const std::size_t known = text.size() < 2 ? std::string_view::npos : kWritten.find(text[1]);
  if (known == std::string_view::npos) return std::nullopt;
  return Escape{.size = 2, .meaning = {kMeant[known]}};
}

std::optional<UnescapedText> read_escapes(std::string_view text) {
  if (text.find('\\') == std::string_view::npos) return std::nullopt;
  UnescapedText result;
  const auto append = [&result](std::string_view bytes, std::size_t begin, std::size_t end) {
    result.text += bytes;
    result.begins.insert(result.begins.end(), bytes.size(), static_cast<std::uint32_t>(begin));
    result.ends.insert(result.ends.end(), bytes.size(), static_cast<std::uint32_t>(end));
  };
  bool has_escapes = false;
  for (std::size_t at = 0; at < text.size();) {
    std::optional<Escape> escape;
    if (text[at] == '\\') escape = read_escape(text.substr(at));
    if (escape) {
      append(escape->meaning, at, at + escape->size);
      at += escape->size;
      has_escapes = true;
    } else {
      append(text.substr(at, 1), at, at + 1);
      ++at;
    }
  }
  if (!has_escapes) return std::nullopt;
  return result;
}

}  // namespace

std::vector<UnescapedText> unescaped_texts(std::string_view text) {
  std::vector<UnescapedText> readings;
  while (readings.size() < kReadingsMax) {
    auto next = read_escapes(readings.empty() ? text : std::string_view(readings.back().text));
    if (!next) break;
    if (!readings.empty()) {
      const UnescapedText& last = readings.back();
      for (std::uint32_t& begin : next->begins) begin = last.begins[begin];
      for (std::uint32_t& end : next->ends) end = last.ends[end - 1];
    }
    readings.push_back(*std::move(next));
  }
  return readings;
}

}  // namespace edgedraft
