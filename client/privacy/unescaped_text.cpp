#include "client/privacy/unescaped_text.h"

#include <algorithm>
#include <charconv>
#include <iterator>
#include <optional>
#include <unordered_map>
#include <utility>

#include "shared/base/ascii.h"
#include "shared/model/utf8.h"

namespace edgedraft::client {
namespace {

// Depth of decoding: JSON within a JSON string within another.
constexpr std::size_t kReadingsMax = 3;

struct Escape {
  std::size_t size;
  std::string meaning;
};

struct NumberedEscape {
  std::size_t size;
  std::uint32_t code;
};

std::string utf8_of(std::uint32_t code) {
  return is_character(code) ? to_utf8(code) : std::string(kReplacementCharacter);
}

// Reads "{fc}" at `begin`, whose size includes what precedes it.
std::optional<NumberedEscape> read_braced(std::string_view text, std::size_t begin) {
  constexpr std::size_t kDigitsMax = 8;
  const std::size_t end = text.substr(0, begin + kDigitsMax + 2).find('}', begin);
  if (end == std::string_view::npos || end == begin + 1) return std::nullopt;
  const auto code = hex_number(text.substr(begin + 1, end - begin - 1));
  if (!code) return std::nullopt;
  return NumberedEscape{.size = end + 1, .code = *code};
}

// Reads "\u00fc", "\xfc" and "\U000000fc" of grammars and Python, and "\u{fc}" of JavaScript.
std::optional<NumberedEscape> read_numbered_escape(std::string_view text) {
  if (text.size() < 2 || text[0] != '\\') return std::nullopt;
  if (text.substr(1).starts_with("u{")) return read_braced(text, 2);
  const char kind = text[1];
  const std::size_t digits = kind == 'u' ? 4 : kind == 'x' ? 2 : kind == 'U' ? 8 : 0;
  if (digits == 0 || text.size() < 2 + digits) return std::nullopt;
  const auto code = hex_number(text.substr(2, digits));
  if (!code) return std::nullopt;
  return NumberedEscape{.size = 2 + digits, .code = *code};
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

// Named characters of HTML: those from U+00A0 on, and the most used of the others.
// Source    HTML Living Standard, 13.5
constexpr std::string_view kLatinNames =
    "nbsp iexcl cent pound curren yen brvbar sect uml copy ordf laquo not shy reg macr deg plusmn "
    "sup2 sup3 acute micro para middot cedil sup1 ordm raquo frac14 frac12 frac34 iquest Agrave "
    "Aacute Acirc Atilde Auml Aring AElig Ccedil Egrave Eacute Ecirc Euml Igrave Iacute Icirc Iuml "
    "ETH Ntilde Ograve Oacute Ocirc Otilde Ouml times Oslash Ugrave Uacute Ucirc Uuml Yacute THORN "
    "szlig agrave aacute acirc atilde auml aring aelig ccedil egrave eacute ecirc euml igrave "
    "iacute icirc iuml eth ntilde ograve oacute ocirc otilde ouml divide oslash ugrave uacute "
    "ucirc uuml yacute thorn yuml";
constexpr std::pair<std::string_view, char32_t> kOtherNames[] = {
    {"amp", U'&'},         {"AMP", U'&'},        {"lt", U'<'},          {"LT", U'<'},
    {"gt", U'>'},          {"GT", U'>'},         {"quot", U'"'},        {"QUOT", U'"'},
    {"apos", U'\''},       {"commat", U'@'},     {"period", U'.'},      {"comma", U','},
    {"colon", U':'},       {"semi", U';'},       {"sol", U'/'},         {"bsol", U'\\'},
    {"num", U'#'},         {"plus", U'+'},       {"equals", U'='},      {"percnt", U'%'},
    {"excl", U'!'},        {"quest", U'?'},      {"lowbar", U'_'},      {"grave", U'`'},
    {"lpar", U'('},        {"rpar", U')'},       {"lsqb", U'['},        {"rsqb", U']'},
    {"lbrack", U'['},      {"rbrack", U']'},     {"Tab", U'\t'},        {"NewLine", U'\n'},
    {"ensp", U'\u2002'},   {"emsp", U'\u2003'},  {"numsp", U'\u2007'},  {"thinsp", U'\u2009'},
    {"hairsp", U'\u200A'}, {"zwnj", U'\u200C'},  {"zwj", U'\u200D'},    {"hyphen", U'\u2010'},
    {"dash", U'\u2010'},   {"ndash", U'\u2013'}, {"mdash", U'\u2014'},  {"minus", U'\u2212'},
    {"lsquo", U'\u2018'},  {"rsquo", U'\u2019'}, {"sbquo", U'\u201A'},  {"ldquo", U'\u201C'},
    {"rdquo", U'\u201D'},  {"bdquo", U'\u201E'}, {"lsaquo", U'\u2039'}, {"rsaquo", U'\u203A'},
    {"prime", U'\u2032'},  {"Prime", U'\u2033'}, {"OElig", U'Œ'},       {"oelig", U'œ'},
    {"Lstrok", U'Ł'},      {"lstrok", U'ł'},     {"Dstrok", U'Đ'},      {"dstrok", U'đ'},
    {"Scaron", U'Š'},      {"scaron", U'š'},     {"Zcaron", U'Ž'},      {"zcaron", U'ž'},
    {"Ccaron", U'Č'},      {"ccaron", U'č'},     {"Cacute", U'Ć'},      {"cacute", U'ć'},
    {"Nacute", U'Ń'},      {"nacute", U'ń'},     {"Sacute", U'Ś'},      {"sacute", U'ś'},
    {"Zacute", U'Ź'},      {"zacute", U'ź'},     {"Zdot", U'Ż'},        {"zdot", U'ż'},
    {"Aogon", U'Ą'},       {"aogon", U'ą'},      {"Eogon", U'Ę'},       {"eogon", U'ę'},
    {"Idot", U'İ'},        {"imath", U'ı'},      {"inodot", U'ı'},      {"Gbreve", U'Ğ'},
    {"gbreve", U'ğ'},      {"Scedil", U'Ş'},     {"scedil", U'ş'},      {"Yuml", U'Ÿ'}};
constexpr std::size_t kNameBytesMax = 8;

std::optional<char32_t> named_character(std::string_view name) {
  static const auto all = [] {
    std::unordered_map<std::string_view, char32_t> names(std::begin(kOtherNames),
                                                         std::end(kOtherNames));
    char32_t code = 0xA0;
    for (std::string_view rest = kLatinNames; !rest.empty(); ++code) {
      const std::size_t size = std::min(rest.find(' '), rest.size());
      names.emplace(rest.substr(0, size), code);
      rest.remove_prefix(std::min(size + 1, rest.size()));
    }
    return names;
  }();
  const auto found = all.find(name);
  return found == all.end() ? std::nullopt : std::optional(found->second);
}

// Reads "&amp;", "&#64;" and "&#x40;"; browsers accept them without a semicolon.
std::optional<Escape> read_entity(std::string_view text) {
  std::size_t end = 1;
  std::optional<char32_t> code;
  if (text.substr(1).starts_with('#')) {
    const bool is_hex = text.size() > 2 && (text[2] | 0x20) == 'x';
    const char* const digits = text.data() + (is_hex ? 3 : 2);
    const char* const last = text.data() + text.size();
    std::uint32_t number = 0;
    if (digits >= last) return std::nullopt;
    const auto [stopped, error] = std::from_chars(digits, last, number, is_hex ? 16 : 10);
    if (error == std::errc::invalid_argument) return std::nullopt;
    code = error == std::errc() ? number : 0xFFFD;
    end = static_cast<std::size_t>(stopped - text.data());
  } else {
    while (end < text.size() && end <= kNameBytesMax &&
           (is_ascii_letter(text[end]) || is_ascii_digit(text[end]))) {
      ++end;
    }
    code = named_character(text.substr(1, end - 1));
  }
  if (!code) return std::nullopt;
  if (end < text.size() && text[end] == ';') ++end;
  return Escape{.size = end, .meaning = utf8_of(*code)};
}

// Also reads "%u00fc" of JavaScript's escape().
// Source    RFC 3986, section 2.1
std::optional<Escape> read_percent(std::string_view text) {
  if (text.size() >= 6 && (text[1] == 'u' || text[1] == 'U')) {
    const auto code = hex_number(text.substr(2, 4));
    if (code) return Escape{.size = 6, .meaning = utf8_of(*code)};
  }
  const auto byte = text.size() < 3 ? std::nullopt : hex_number(text.substr(1, 2));
  if (!byte) return std::nullopt;
  return Escape{.size = 3, .meaning = {static_cast<char>(*byte)}};
}

struct Reading {
  UnescapedText text;
  bool has_escapes = false;
  bool of_web = false;  // has entities or percent escapes
};

// `of_web` also decodes entities and percent escapes.
Reading read_escapes(std::string_view text, bool of_web) {
  Reading reading;
  if (text.find_first_of(of_web ? "\\&%" : "\\") == std::string_view::npos) return reading;
  for (std::size_t at = 0; at < text.size();) {
    std::optional<Escape> escape;
    if (text[at] == '\\') escape = read_escape(text.substr(at));
    if (of_web && text[at] == '&') escape = read_entity(text.substr(at));
    if (of_web && text[at] == '%') escape = read_percent(text.substr(at));
    if (escape) {
      reading.of_web = reading.of_web || text[at] != '\\';
      reading.text.append(escape->meaning, at, at + escape->size);
      at += escape->size;
      reading.has_escapes = true;
    } else {
      reading.text.append(text.substr(at, 1), at, at + 1);
      ++at;
    }
  }
  return reading;
}

// Appends readings, each decoded from the previous one.
bool append_readings(std::string_view text, bool of_web, std::vector<UnescapedText>& readings) {
  const std::size_t before = readings.size();
  bool has_web = false;
  while (readings.size() < before + kReadingsMax) {
    const UnescapedText* const last = readings.size() > before ? &readings.back() : nullptr;
    Reading next = read_escapes(last == nullptr ? text : std::string_view(last->text), of_web);
    if (!next.has_escapes) break;
    has_web = has_web || next.of_web;
    if (last != nullptr) {
      for (std::uint32_t& begin : next.text.begins) begin = last->begins[begin];
      for (std::uint32_t& end : next.text.ends) end = last->ends[end - 1];
    }
    readings.push_back(std::move(next.text));
  }
  return has_web;
}

}  // namespace

std::vector<UnescapedText> unescaped_texts(std::string_view text) {
  std::vector<UnescapedText> readings;
  append_readings(text, /*of_web=*/false, readings);
  const std::size_t before = readings.size();
  // A percent sign or ampersand may be literal, so the readings above stay.
  if (!append_readings(text, /*of_web=*/true, readings)) readings.resize(before);
  return readings;
}

}  // namespace edgedraft::client
