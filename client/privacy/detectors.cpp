#include "client/privacy/detectors.h"

#include <arpa/inet.h>
#include <utf8proc.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "client/privacy/folded_text.h"
#include "client/privacy/unescaped_text.h"
#include "shared/base/ascii.h"
#include "shared/model/tokenizer/pattern.h"
#include "shared/model/utf8.h"

namespace edgedraft::client {
namespace {

std::string digits_of(std::string_view text) {
  std::string digits;
  std::ranges::copy_if(text, std::back_inserter(digits), is_ascii_digit);
  return digits;
}

// Size in bytes of the private part at the start of `text`, whose first `matched` bytes match the
// detector's expression; 0: none.
using Size = std::size_t (*)(std::string_view text, std::size_t matched);

template <bool (*accepts)(std::string_view match)>
std::size_t whole_if(std::string_view text, std::size_t matched) {
  return accepts(text.substr(0, matched)) ? matched : 0;
}

std::size_t whole(std::string_view, std::size_t matched) {
  return matched;
}

// `overlap`: another match may begin within one.
Detector make_detector(PrivateType type, const std::string& expression, Size size,
                       bool overlap = false) {
  const auto find = [type, size, overlap, pattern = std::make_shared<const Pattern>(expression)](
                        std::string_view text, std::vector<PrivateSpan>& found) {
    for (auto match = pattern->find(text, 0); match;
         match = pattern->find(text, overlap ? match->begin + 1 : match->end)) {
      const std::size_t bytes = size(text.substr(match->begin), match->end - match->begin);
      if (bytes == 0) continue;
      found.push_back({.begin = match->begin, .end = match->begin + bytes, .type = type});
    }
  };
  return {.type = type, .find = find};
}

// True for "2026-11-22", with or without a time.
bool begins_with_date(std::string_view text) {
  constexpr std::string_view kForm = "0000-00-00";
  return text.size() >= kForm.size() &&
         std::ranges::equal(text.substr(0, kForm.size()), kForm, {},
                            [](char c) { return is_ascii_digit(c) ? '0' : c; });
}

// Accepts no dates, fractions or columns of a table; requires an area code, or all ten digits.
bool is_phone(std::string_view text) {
  const std::string digits = digits_of(text);
  if (digits.size() < 7 || digits.size() > 15) return false;
  if (text.front() == '+' || text.front() == '(') return true;
  const auto separators = std::ranges::count_if(text, [](char c) { return !is_ascii_digit(c); });
  const bool date = separators == 2 && digits.size() == 8 &&
                    (std::ranges::count(text, '.') == 2 || std::ranges::count(text, '-') == 2 ||
                     std::ranges::count(text, '/') == 2);
  if (date || begins_with_date(text) || text.starts_with("0.")) return false;
  const bool american = digits.size() == 10 || (digits.size() == 11 && digits.front() == '1');
  const bool is_column = text.find("  ") != std::string_view::npos;
  return text.front() == '0' || (american && separators >= 2 && !is_column);
}

// Accepts numbers that continue over line breaks, but not over a blank line.
bool is_broken_phone(std::string_view text) {
  bool is_behind_break = false;
  for (const char c : text) {
    if (c == '\n' && is_behind_break) return false;
    is_behind_break = c == '\n' || (is_behind_break && (c == '\r' || c == ' ' || c == '\t'));
  }
  return text.find('\n') != std::string_view::npos && is_phone(text);
}

// Returns the position after a group separator: one character, or a line break with the blanks
// around it.
std::size_t behind_separator(std::string_view text, std::size_t at) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t line_end = std::min(text.find_first_not_of(kBlanks, at), text.size());
  if (line_end < text.size() && text[line_end] == '\n') {
    return std::min(text.find_first_not_of(kBlanks, line_end + 1), text.size());
  }
  constexpr std::string_view kSeparators = " \t-./";
  return at < text.size() && kSeparators.find(text[at]) != std::string_view::npos ? at + 1 : at;
}
// A separator as an expression, without dots and slashes.
const std::string kSeparator = R"((?:[ \t]?\r?\n[ \t]*+|[ \t\-])?)";

constexpr std::size_t kCardDigitsMin = 13;
constexpr std::size_t kCardDigitsMax = 19;

// Source    ISO/IEC 7812-1, annex B
bool has_luhn_digit(std::string_view digits) {
  int sum = 0;
  for (std::size_t i = 0; i < digits.size(); ++i) {
    int digit = digits[digits.size() - 1 - i] - '0';
    if (i % 2 == 1) digit = digit > 4 ? 2 * digit - 9 : 2 * digit;
    sum += digit;
  }
  return sum % 10 == 0;
}

// Usual number of digits of cards with this prefix.
std::size_t usual_card_digits(std::string_view digits) {
  if (digits.starts_with("34") || digits.starts_with("37")) return 15;
  const bool is_diners =
      digits.starts_with("30") || digits.starts_with("36") || digits.starts_with("38");
  return is_diners ? 14 : 16;
}

// Bytes of the card at the start of a 13 to 19 digit number: all of it, or as many groups or digits
// as its kind has, because an expiry date or a code may follow. 0: none.
std::size_t card_size(std::string_view text, std::size_t matched) {
  const std::string_view number = text.substr(0, matched);
  std::string digits;
  std::array<std::size_t, kCardDigitsMax> ends{};  // after each digit
  for (std::size_t i = 0; i < number.size(); ++i) {
    if (!is_ascii_digit(number[i])) continue;
    ends[digits.size()] = i + 1;
    digits += number[i];
  }
  const std::string_view all = digits;
  for (std::size_t count = all.size(); count >= kCardDigitsMin; --count) {
    const std::size_t end = ends[count - 1];
    const bool ends_group = end == number.size() || !is_ascii_digit(number[end]);
    if (ends_group && has_luhn_digit(all.substr(0, count))) return end;
  }
  const std::size_t usual = usual_card_digits(all);
  return usual < all.size() && has_luhn_digit(all.substr(0, usual)) ? ends[usual - 1] : 0;
}

bool is_ip_address(std::string_view text) {
  int part = 0;
  bool valid = true;
  for (const char c : text) {
    part = c == '.' ? 0 : 10 * part + (c - '0');
    valid = valid && part <= 255;
  }
  // Loopback and wildcard addresses are not private.
  return valid && !text.starts_with("127.") && text != "0.0.0.0";
}

// Requires a digit; without one it is a program's name, such as "abc::def".
// Source    RFC 4291, section 2.2
bool is_ip6_address(std::string_view text) {
  in6_addr address{};
  const bool valid = inet_pton(AF_INET6, std::string(text).c_str(), &address) == 1;
  return valid && text != "::1" && std::ranges::any_of(text, is_ascii_digit);
}

double entropy(std::string_view text) {
  std::array<int, 256> counts{};
  for (const char c : text) ++counts[static_cast<unsigned char>(c)];
  double bits = 0.0;
  for (const int count : counts) {
    if (count == 0) continue;
    const double p = count / static_cast<double>(text.size());
    bits -= p * std::log2(p);
  }
  return bits;
}

// True for random mixtures of letters and digits; words have no digits, numbers no letters.
bool looks_random(std::string_view text) {
  constexpr double kBits = 3.5;
  constexpr double kHexBits = 3.0;
  if (std::ranges::none_of(text, is_ascii_digit) || std::ranges::none_of(text, is_ascii_letter))
    return false;
  const bool hex = text.find_first_not_of("0123456789abcdefABCDEF-") == std::string_view::npos;
  return entropy(text) >= (hex ? kHexBits : kBits);
}

// Source    SWIFT, IBAN registry, release 99: characters by country
constexpr std::pair<std::string_view, std::size_t> kIbans[] = {
    {"AD", 24}, {"AE", 23}, {"AL", 28}, {"AT", 20}, {"AZ", 28}, {"BA", 20}, {"BE", 16}, {"BG", 22},
    {"BH", 22}, {"BI", 27}, {"BR", 29}, {"BY", 28}, {"CH", 21}, {"CR", 22}, {"CY", 28}, {"CZ", 24},
    {"DE", 22}, {"DJ", 27}, {"DK", 18}, {"DO", 28}, {"EE", 20}, {"EG", 29}, {"ES", 24}, {"FI", 18},
    {"FK", 18}, {"FO", 18}, {"FR", 27}, {"GB", 22}, {"GE", 22}, {"GI", 23}, {"GL", 18}, {"GR", 27},
    {"GT", 28}, {"HR", 21}, {"HU", 28}, {"IE", 22}, {"IL", 23}, {"IQ", 23}, {"IS", 26}, {"IT", 27},
    {"JO", 30}, {"KW", 30}, {"KZ", 20}, {"LB", 28}, {"LC", 32}, {"LI", 21}, {"LT", 20}, {"LU", 20},
    {"LV", 21}, {"LY", 25}, {"MC", 27}, {"MD", 24}, {"ME", 22}, {"MK", 19}, {"MN", 20}, {"MR", 27},
    {"MT", 31}, {"MU", 30}, {"NI", 28}, {"NL", 18}, {"NO", 15}, {"OM", 23}, {"PK", 24}, {"PL", 28},
    {"PS", 29}, {"PT", 25}, {"QA", 29}, {"RO", 24}, {"RS", 22}, {"RU", 33}, {"SA", 24}, {"SC", 31},
    {"SD", 18}, {"SE", 24}, {"SI", 19}, {"SK", 24}, {"SM", 27}, {"SO", 23}, {"ST", 25}, {"SV", 28},
    {"TL", 23}, {"TN", 24}, {"TR", 26}, {"UA", 29}, {"VA", 22}, {"VG", 24}, {"XK", 20}, {"YE", 30}};

char upper(char c) {
  return c >= 'a' && c <= 'z' ? static_cast<char>(c - 'a' + 'A') : c;
}

// Source    ISO 13616-1, annex A
bool has_iban_digits(const std::string& iban) {
  int rest = 0;
  for (std::size_t i = 0; i < iban.size(); ++i) {
    const char c = iban[(i + 4) % iban.size()];
    rest = is_ascii_digit(c) ? (10 * rest + (c - '0')) % 97 : (100 * rest + (c - 'A' + 10)) % 97;
  }
  return rest == 1;
}

// The country determines the length, so that the IBAN ends before the next word.
std::size_t iban_size(std::string_view text, std::size_t) {
  const std::string country{upper(text[0]), upper(text[1])};
  const auto* const known = std::ranges::find(
      kIbans, country, [](const auto& entry) { return std::string(entry.first); });
  if (known == std::end(kIbans)) return 0;
  std::string iban;
  std::size_t at = 0;
  while (at < text.size() && iban.size() < known->second) {
    const char c = text[at];
    if (!is_ascii_digit(c) && !is_ascii_letter(c)) return 0;
    iban += upper(c);
    ++at;
    if (iban.size() < known->second) at = behind_separator(text, at);
  }
  const bool goes_on = at < text.size() && (is_ascii_digit(text[at]) || is_ascii_letter(text[at]));
  return iban.size() == known->second && !goes_on && has_iban_digits(iban) ? at : 0;
}

constexpr std::string_view kPemBegin = "-----BEGIN ";
constexpr std::string_view kPemEnd = "-----END ";
constexpr std::string_view kPemDashes = "-----";
constexpr std::string_view kLabelLetters = "ABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789 ";

// Above the longest key in use. A longer body is not a key, or has no closing mark.
constexpr std::size_t kBodyBytesMax = 65'536;
constexpr std::size_t kLabelBytesMax = 64;

// Returns the end of a mark's label, or of the text.
std::size_t label_end(std::string_view text, std::size_t label) {
  const std::size_t size = text.substr(label, kLabelBytesMax).find_first_not_of(kLabelLetters);
  return size == std::string_view::npos ? std::min(label + kLabelBytesMax, text.size())
                                        : label + size;
}

// Returns the end of the mark at `begin`; 0: it opens no private key.
std::size_t body_begin(std::string_view text, std::size_t begin) {
  const std::size_t label = begin + kPemBegin.size();
  const std::size_t end = label_end(text, label);
  const std::string_view name = text.substr(label, end - label);
  const bool is_private = name.ends_with("PRIVATE KEY") || name.ends_with("PRIVATE KEY BLOCK");
  return is_private && text.substr(end).starts_with(kPemDashes) ? end + kPemDashes.size() : 0;
}

std::size_t mark_end(std::string_view text, std::size_t mark) {
  const std::size_t end = label_end(text, mark + kPemEnd.size());
  return text.substr(end).starts_with(kPemDashes) ? end + kPemDashes.size() : end;
}

// Returns the position after an escaped line break, at any depth of escaping; 0: there is none.
std::size_t escaped_line_end(std::string_view text, std::size_t at) {
  const std::size_t letter = text.find_first_not_of('\\', at);
  const bool is_break = letter != std::string_view::npos && letter > at &&
                        (text[letter] == 'n' || text[letter] == 'r');
  return is_break ? letter + 1 : 0;
}

// Size of a body without a closing mark: key characters with line breaks, escaped or not,
// quotation prefixes, and headers such as "DEK-Info: AES-256-CBC,4C1B".
std::size_t body_size(std::string_view rest) {
  rest = rest.substr(0, kBodyBytesMax);
  std::size_t end = 0;
  for (std::size_t at = 0; at < rest.size();) {
    const char c = rest[at];
    const bool is_blank = c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == '>';
    const std::size_t escaped = is_blank ? 0 : escaped_line_end(rest, at);
    const bool is_key_letter =
        is_ascii_letter(c) || is_ascii_digit(c) || c == '+' || c == '/' || c == '=' || c == '-';
    if (is_blank) {
      ++at;
    } else if (escaped > 0) {
      at = escaped;
    } else if (is_key_letter) {
      end = ++at;
    } else if (c == ':' && rest.substr(at).starts_with(": ")) {
      // Up to the end of the line, which may be escaped.
      at = end = std::min(rest.find_first_of("\\\r\n", at), rest.size());
    } else {
      break;
    }
  }
  return end;
}

// Private keys between the marks of PEM or OpenPGP, including everything between the marks. They
// may be quoted, encrypted, indented, or on one line with escapes.
// Source    RFC 7468, section 3; RFC 1421, section 4.6 (headers); RFC 9580, section 6.2
void find_pem(std::string_view text, std::vector<PrivateSpan>& found) {
  std::size_t mark = 0;  // first closing mark after the latest opening one; each is read once
  for (std::size_t begin = text.find(kPemBegin); begin != std::string_view::npos;) {
    const std::size_t body = body_begin(text, begin);
    const std::size_t next = text.find(kPemBegin, begin + kPemBegin.size());
    if (body > 0) {
      if (mark < body) mark = std::min(text.find(kPemEnd, body), text.size());
      const bool is_closed = mark < std::min(next, text.size()) && mark - body <= kBodyBytesMax;
      const std::size_t end =
          is_closed ? mark_end(text, mark) : body + body_size(text.substr(body, next - body));
      found.push_back({.begin = begin, .end = end, .type = PrivateType::key});
    }
    begin = next;
  }
}

// Replaces invalid bytes, keeping the length, because patterns require UTF-8.
std::string as_utf8(std::string_view text) {
  std::string valid(text);
  for (std::size_t at = 0; at < valid.size();) {
    const Utf8Front front = utf8_front(std::string_view(valid).substr(at));
    if (front.kind != Utf8Front::Kind::character) {
      std::fill_n(valid.begin() + static_cast<std::ptrdiff_t>(at), front.byte_count, '?');
    }
    at += front.byte_count;
  }
  return valid;
}

// Returns the ASCII form of a character, nothing if it is invisible, or else the character itself.
std::string plain_form(std::string_view character) {
  utf8proc_int32_t code = 0;
  utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(character.data()),
                   static_cast<utf8proc_ssize_t>(character.size()), &code);
  if (code == 0x3002 || code == 0xFF61) return ".";
  if (code == 0x2212) return "-";
  switch (utf8proc_category(code)) {
    case UTF8PROC_CATEGORY_ZS:
      return " ";
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return "\n";
    case UTF8PROC_CATEGORY_PD:
      return "-";
    case UTF8PROC_CATEGORY_ND:
      return {static_cast<char>(ascii_digit(static_cast<char32_t>(code)))};
    default:
      break;
  }
  std::array<utf8proc_int32_t, 32> parts{};
  int last_class = 0;
  const utf8proc_ssize_t count = utf8proc_decompose_char(
      code, parts.data(), parts.size(),
      static_cast<utf8proc_option_t>(UTF8PROC_DECOMPOSE | UTF8PROC_COMPAT | UTF8PROC_IGNORE),
      &last_class);
  if (count == 0) return "";
  const bool is_wide = count == 1 && parts[0] < 0x80;
  return is_wide ? std::string{static_cast<char>(parts[0])} : std::string(character);
}

// Maps blanks, dashes, digits and wide letters to ASCII for the detectors, and drops invisible
// characters. Empty if the text needs no change. Requires  valid UTF-8
std::optional<UnescapedText> plain_text(std::string_view text) {
  if (std::ranges::none_of(text, [](char c) { return static_cast<unsigned char>(c) >= 0x80; })) {
    return std::nullopt;
  }
  UnescapedText plain;
  bool has_changed = false;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t size = utf8_front(text.substr(at)).byte_count;
    const std::string_view character = text.substr(at, size);
    if (size == 1) {
      plain.append(character, at, at + size);
    } else {
      const std::string form = plain_form(character);
      has_changed = has_changed || form != character;
      plain.append(form, at, at + size);
    }
    at += size;
  }
  return has_changed ? std::optional(std::move(plain)) : std::nullopt;
}

}  // namespace

std::vector<Detector> make_detectors(std::span<const PrivateType> types) {
  std::vector<Detector> detectors;
  const auto wanted = [types](PrivateType type) {
    return std::ranges::find(types, type) != types.end();
  };
  const auto add = [&](PrivateType type, const std::string& expression, Size size,
                       bool overlap = false) {
    if (wanted(type)) detectors.push_back(make_detector(type, expression, size, overlap));
  };
  add(PrivateType::mail,
      R"((?:[\p{L}\p{N}._%+\-]{1,64}|"[^"\r\n]{1,64}")@(?:[\p{L}\p{N}\-]{1,63}\.){1,8}\p{L}{2,24})",
      whole);
  add(PrivateType::phone,
      R"((?<![\p{L}\p{N}.,])(?:\+|\()?[0-9][0-9 ()/.\-]{5,22}[0-9](?![\p{L}\p{N}]|[.,][0-9]))",
      whole_if<is_phone>);
  add(PrivateType::phone,
      R"((?<![\p{L}\p{N}.,])(?:\+|\()?[0-9][0-9 \t\r\n()/.\-]{5,30}[0-9](?![\p{L}\p{N}]|[.,][0-9]))",
      whole_if<is_broken_phone>);
  // Dots and slashes only between usual groups; other such numbers are fractions and paths. Another
  // number may begin at any group of this one. All are short, so the time stays linear.
  add(PrivateType::card,
      R"((?<![\p{L}\p{N}])(?:[2-6](?:)" + kSeparator + R"([0-9]){12,18}|)" +
          R"([2-6][0-9]{3}(?:[./][0-9]{4,6}){2,3})(?![\p{L}\p{N}]))",
      card_size, /*overlap=*/true);
  add(PrivateType::iban, R"((?<![\p{L}\p{N}])[A-Za-z]{2}[0-9]{2})", iban_size);
  add(PrivateType::address, R"((?<![0-9.])(?:[0-9]{1,3}\.){3}[0-9]{1,3}(?![0-9]|\.[0-9]))",
      whole_if<is_ip_address>);
  add(PrivateType::address,
      R"((?<![\p{L}\p{N}:.])(?:[0-9A-Fa-f]{0,4}:){2,7}[0-9A-Fa-f]{0,4}(?![\p{L}\p{N}:]))",
      whole_if<is_ip6_address>);
  add(PrivateType::address,
      R"((?<![\p{L}\p{N}])[0-9]{1,5}[a-zA-Z]? (?:\p{Lu}[\p{L}'.\-]{1,24} ){1,3})"
      R"((?:Street|St|Avenue|Ave|Road|Rd|Lane|Ln|Drive|Dr|Boulevard|Blvd|Way|Court|Ct|Square|Sq|)"
      R"(Place|Pl|Terrace|Close)(?!\p{L})\.?(?: (?:N|S|[NS]?[EW])(?!\p{L}))?)",
      whole);
  add(PrivateType::address,
      R"(\p{Lu}[\p{L}\-]{0,30}(?:[sS]tra(?:ß|ss)e|[sS]tr\.|[wW]eg|[pP]latz|[aA]llee|gasse|damm|ufer) )"
      R"((?:(?:der|des|am|an der) \p{Lu}[\p{L}\-]{1,24} )?[0-9]{1,4}[a-z]?(?![\p{L}\p{N}]))",
      whole);
  add(PrivateType::address,
      R"((?<![\p{L}\p{N}])(?:Straße|Platz|Allee) (?:der|des) (?:\p{L}[\p{L}.\-]{1,24} ){1,3})"
      R"([0-9]{1,4}[a-z]?(?![\p{L}\p{N}]))",
      whole);
  add(PrivateType::address,
      R"((?<![\p{L}\p{N}])[0-9]{1,4}(?: bis| ter)?,? )"
      R"((?:[rR]ue|[aA]venue|[bB]oulevard|[pP]lace|[qQ]uai|[cC]hemin|[aA]llée|[iI]mpasse))"
      R"((?: (?:des?|du|la|les?))*(?: [ld]['’]| )(?:\p{Lu}[\p{L}'’\-]{1,24} ?){1,3}(?<! ))",
      whole);
  // No length limit: a cut key would expose its rest.
  add(PrivateType::key,
      R"((?<![\p{L}\p{N}])(?:SG\.|sk-|sk_|pk_|rk_|ghp_|gho_|ghs_|github_pat_|glpat-|xox[abeprs]-|AKIA|ASIA|)"
      R"(AIza|ya29\.|hf_|npm_|pypi-|eyJ)[A-Za-z0-9_\-.+/=]{14,}+)",
      whole);
  if (wanted(PrivateType::key)) {
    detectors.push_back({.type = PrivateType::key, .find = find_pem});
  }
  // Keys of AWS have no prefix, and may hold slashes.
  add(PrivateType::key, R"((?<![\p{L}\p{N}/+=])[A-Za-z0-9/+]{40}(?![\p{L}\p{N}/+=]))",
      whole_if<looks_random>);
  add(PrivateType::key, R"((?<![\p{L}\p{N}/])[A-Za-z0-9+_\-]{20,512}={0,2}(?![\p{L}\p{N}/]))",
      whole_if<looks_random>);
  return detectors;
}

std::vector<PrivateSpan> detected_in(std::string_view text, std::span<const Detector> detectors,
                                     bool with_keys) {
  const std::string safe = as_utf8(text);
  const std::optional<UnescapedText> plain = plain_text(safe);
  std::vector<PrivateSpan> found;
  for (const Detector& detector : detectors) {
    if (with_keys || detector.type != PrivateType::key) {
      detector.find(plain ? plain->text : safe, found);
    }
  }
  if (!plain) return found;
  for (PrivateSpan& span : found) span = plain->as_written(span);
  return found;
}

}  // namespace edgedraft::client
