#include "client/privacy/restored_text.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <utility>

#include "shared/base/ascii.h"
#include "shared/model/utf8.h"

namespace edgedraft::client {
namespace {

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// Bytes of the first `characters` code points.
std::size_t bytes_of(std::string_view text, std::size_t characters) {
  std::size_t at = 0;
  while (at < text.size() && characters-- > 0) at += utf8_front(text.substr(at)).byte_count;
  return at;
}

// True if more bytes may complete a placeholder.
bool begins_placeholder(std::string_view text) {
  constexpr std::string_view kForm = "[AAAA_000]";
  return is_placeholder(std::string(text) + std::string(kForm.substr(text.size())));
}

// Escapes for use between the quotation marks of a JSON string.
std::string escaped(const std::string& text) {
  const std::string json =
      nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return json.substr(1, json.size() - 2);
}

bool is_letter(char c) {
  return is_ascii_letter(c) || is_ascii_digit(c) || static_cast<unsigned char>(c) >= 0x80;
}

bool is_host_sign(char c) {
  return is_letter(c) || c == '-' || c == '_' || c == '.';
}

// True if no address continues over this character. `last_bytes` end with it. Counts UTF-8 blanks
// and the punctuation of scripts without spaces.
bool ends_word(std::uint32_t last_bytes) {
  constexpr std::string_view kEnds = "\"<>`{}|^";
  const auto c = static_cast<char>(last_bytes & 0xFF);
  if (static_cast<unsigned char>(c) < 0x80) return is_blank(c) || kEnds.find(c) != kEnds.npos;
  const std::uint32_t three = last_bytes & 0xFFFFFF;
  const bool is_general = three >= 0xE28080 && three <= 0xE2808A;
  const bool is_cjk = (three & 0xFFFFC0) == 0xE38080;
  const bool is_wide = three == 0xEFBC81 || three == 0xEFBC88 || three == 0xEFBC89 ||
                       three == 0xEFBC8C || three == 0xEFBC9A || three == 0xEFBC9B ||
                       three == 0xEFBC9F;
  return is_general || is_cjk || is_wide || (last_bytes & 0xFFFF) == 0xC2A0;
}

// Decodes a numeric escape. Half of a surrogate pair becomes bytes that are not a letter, blank or
// mark, like the bytes of the pair's character.
std::string character_of(std::string_view digits) {
  unsigned code = 0;
  std::from_chars(digits.data(), digits.data() + digits.size(), code, 16);
  return to_utf8(code);
}

}  // namespace

bool RestoredText::Place::is_behind_word() const {
  return is_ascii_letter(line_last) || static_cast<unsigned char>(line_last) >= 0x80;
}

// A tag that readers may parse in different ways is never closed.
// Source    HTML Living Standard, 13.2.5.8 to 13.2.5.40
void RestoredText::Place::take_in_tag(char c) {
  const bool is_quote = c == '"' || c == '\'';
  const bool ends_line = c == '\n' || c == '\r';
  // In JSON a quotation mark is escaped by a backslash or as a number.
  tag_has_quotes = tag_has_quotes || is_quote || c == '\\';
  // A '<' may open a tag if the reader sees a comment or plain text here. Markdown's HTML may end
  // at any line; quotation marks after it become entities and close nothing.
  tag_in_doubt =
      tag_in_doubt || c == '<' || (quote != 0 && ends_line) || (before == '\\' && !is_quote);
  if (quote != 0) {
    if (c != quote) return;
    quote = 0;
    tag_part = TagPart::gap;
  } else if (c == '>') {
    in_tag = tag_has_quotes && tag_in_doubt;
  } else if (is_blank(c) || c == '\f') {
    if (tag_part == TagPart::attribute) tag_part = TagPart::behind_attribute;
    if (tag_part == TagPart::name || tag_part == TagPart::value) tag_part = TagPart::gap;
  } else if (tag_part == TagPart::value_begin) {
    if (is_quote) quote = c;
    if (!is_quote && c != '\\') tag_part = TagPart::value;
  } else if (tag_part == TagPart::value) {
    return;
  } else if (c == '/') {
    tag_part = TagPart::gap;
  } else if (c == '=' &&
             (tag_part == TagPart::attribute || tag_part == TagPart::behind_attribute)) {
    tag_part = TagPart::value_begin;
  } else if (tag_part != TagPart::name) {
    tag_part = TagPart::attribute;
  }
}

// A hostile target could define a label for each of its guesses, and learn the right one from the
// picture that is fetched. The label of a lone link, [x], is restored. A list in code looks the
// same, and the link is fetched only if the user follows it.
// Source    CommonMark 0.31.2, 6.3 and 6.4. Older dialects read [x] [y] as [x][y].
void RestoredText::Place::take_in_label(char c) {
  if (label_depth > 0) {
    if (c == '[') ++label_depth;
    if (c == ']' && before != '\\') --label_depth;
  } else if (c == '[' && (before == '!' || label_may_follow)) {
    label_depth = 1;
  }
  label_may_follow = c == ']' || (label_may_follow && is_blank(c));
}

// Messengers turn bare hosts into links, and browsers resolve them in advance.
void RestoredText::Place::take_in_word(char c) {
  last_bytes = last_bytes << 8 | static_cast<unsigned char>(c);
  const char joined = std::exchange(joint, 0);
  if (ends_word(last_bytes) || (backslash_escapes && c == '\\')) {
    in_host = in_address = false;
    return;
  }
  const bool is_behind_letter = is_letter(before) || before == ']';
  constexpr std::string_view kNoAddress = "'(),;*:";
  if (joined == '.') in_host = in_host || is_letter(c) || c == '[';
  if (joined == ':') in_address = in_address || kNoAddress.find(c) == kNoAddress.npos;
  if (!is_host_sign(c) && c != '[' && c != ']') in_host = false;
  if (!is_behind_letter) return;
  if (c == '.' || c == ':') joint = c;
  in_address = in_address || c == '/' || c == '@' || c == '?';
}

void RestoredText::Place::take(char c) {
  if (c == '\n') {
    // A target may be on the line after its '(' or ':', but not after a blank line, which also ends
    // labels.
    const bool is_blank_line = line_last == 0;
    if (is_blank_line) target_depth = label_depth = 0;
    if (is_blank_line) label_may_follow = false;
    if (is_blank_line || definition_begun) in_definition = false;
    line_last = 0;
  }
  if (is_blank(c)) {
    word_links = false;
    word_tail.clear();
  } else {
    constexpr std::string_view kLinks[] = {"www.", "http:", "https:"};
    // Readers disagree on where these end: Markdown writes an apparent end as entities.
    constexpr std::string_view kRunsOn[] = {"<script", "<style"};
    constexpr std::size_t kTailBytes = 7;
    if (word_tail.size() == kTailBytes) word_tail.erase(0, 1);
    word_tail += static_cast<char>(c | 0x20);
    runs_on = runs_on || std::ranges::any_of(kRunsOn, [this](std::string_view begin) {
                return word_tail.ends_with(begin);
              });
    // Browsers accept either slash.
    const auto is_slash = [](char one) { return one == '/' || one == '\\'; };
    word_links = word_links || (is_slash(c) && is_slash(before)) ||
                 std::ranges::any_of(
                     kLinks, [this](std::string_view link) { return word_tail.ends_with(link); });
    line_last = c;
    definition_begun = true;
  }
  // A tag or quotation mark that is never closed extends to the end of the text. A placeholder may
  // supply the tag's name.
  constexpr std::string_view kTagMarks = "/!?[";
  if (in_tag) {
    take_in_tag(c);
  } else if (before == '<' && (is_ascii_letter(c) || kTagMarks.find(c) != std::string_view::npos)) {
    in_tag = true;
    tag_part = TagPart::name;
    quote = 0;
    tag_has_quotes = tag_in_doubt = false;
  }
  take_in_label(c);
  take_in_word(c);
  // A target may be inside an apparent one, so every opening counts, escaped or not.
  if (target_depth > 0) {
    const bool escaped = before == '\\';
    if (c == '<') target_angled = true;
    if (c == '>' && !escaped) target_angled = false;
    if (c == '(') ++target_depth;
    if (c == ')' && !escaped && !target_angled) --target_depth;
  } else if (before == ']' && c == '(') {
    target_depth = 1;
    target_angled = false;
  }
  // Its label may begin on an earlier line, or after list markers of any kind.
  if (before == ']' && c == ':' && !in_sentence) {
    in_definition = true;
    definition_begun = false;
  }
  in_sentence = false;
  before = c;
}

// Takes an escape once it is complete, and other text as it is.
// Source    RFC 8259, section 7
void RestoredText::DecodedPlace::take(char c) {
  const bool is_number = escape.size() >= 2;
  if (is_number && hex_digit(c) < 0) {
    for (const char written : std::exchange(escape, {})) place.take(written);
  }
  if (escape.empty()) {
    // A definition does not continue into another string.
    if (c == '"') place.in_definition = false;
    if (c == '\\') {
      escape = c;
    } else {
      place.take(c);
    }
    return;
  }
  escape += c;
  if (is_number) {
    constexpr std::size_t kNumberBytes = 6;
    if (escape.size() < kNumberBytes) return;
    for (const char byte : character_of(escape.substr(2))) place.take(byte);
  } else {
    constexpr std::string_view kWritten = "nrtbf\"\\/";
    constexpr std::string_view kMeant = "\n\r\t\b\f\"\\/";
    if (c == 'u') return;
    const std::size_t known = kWritten.find(c);
    if (known == std::string_view::npos) place.take('\\');
    place.take(known == std::string_view::npos ? c : kMeant[known]);
  }
  escape.clear();
}

RestoredText::RestoredText(const Placeholders& placeholders, bool in_json, std::string_view before)
    : placeholders_(placeholders), in_json_(in_json), masked_(before) {
  at_.place.backslash_escapes = in_json;
  read(/*whole=*/true);
  start_ = at_;
  masked_.clear();
  read_again();
}

void RestoredText::take(char c) {
  at_.place.take(c);
  if (!in_json_) return;
  at_.decoded.take(c);
  const bool is_one_line = c != '\n' && c != '\r';
  at_.defines_nothing = at_.defines_nothing.value_or(c == '{') && is_one_line;
  if (*at_.defines_nothing) at_.place.in_definition = false;
}

void RestoredText::take_placeholder(std::string_view placeholder, bool stays) {
  const bool in_sentence = !stays && at_.place.is_behind_word();
  const bool decoded_in_sentence = !stays && at_.decoded.place.is_behind_word();
  for (const char c : placeholder) take(c);
  at_.place.in_sentence = in_sentence;
  at_.decoded.place.in_sentence = decoded_in_sentence;
}

// Restores again from the start of the text.
void RestoredText::read_again() {
  restored_.clear();
  value_bytes_ = 0;
  read_ = 0;
  at_ = start_;
  read(/*whole=*/false);
}

void RestoredText::read(bool whole) {
  while (read_ < masked_.size()) {
    const char first = masked_[read_];
    std::string candidate;
    // Looks up only candidates, because texts are long.
    if (first == '[') candidate = masked_.substr(read_, kPlaceholderBytes);
    const bool cut = candidate.size() < kPlaceholderBytes;
    if (first == '[' && cut && !whole && begins_placeholder(candidate)) return;
    const std::string* const value = cut ? nullptr : placeholders_.value_of(candidate);
    if (value == nullptr) {
      take(first);
      restored_ += first;
      ++read_;
      continue;
    }
    const auto address = begins_address(read_ + kPlaceholderBytes, whole);
    if (!address) return;
    // After half an escape, the value would become a part of it.
    const bool stays = *address || at_.place.may_be_sent_on() ||
                       at_.decoded.place.may_be_sent_on() || !at_.decoded.escape.empty() ||
                       value->size() > kValueBytesMax - value_bytes_;
    if (!stays) value_bytes_ += value->size();
    restored_ += stays ? candidate : in_json_ ? escaped(*value) : *value;
    take_placeholder(candidate, stays);
    read_ += kPlaceholderBytes;
  }
}

// True if the text at `at` makes the preceding value the start of a host or address. Empty if that
// depends on further text.
std::optional<bool> RestoredText::begins_address(std::size_t at, bool whole) const {
  constexpr std::size_t kHostBytesMax = 253;
  const std::size_t end = std::min(at + kHostBytesMax, masked_.size());
  const bool is_cut = !whole && end == masked_.size();
  const auto undecided = [is_cut] { return is_cut ? std::nullopt : std::optional(false); };
  std::uint32_t last_bytes = 0;
  char joint = 0;
  while (at < end) {
    std::string character(1, masked_[at]);
    std::size_t size = 1;
    if (in_json_ && character[0] == '\\') {
      if (at + 2 > end) return undecided();
      const bool is_number = masked_[at + 1] == 'u';
      size = is_number ? 6 : 2;
      if (at + size > end) return undecided();
      if (!is_number && masked_[at + 1] != '/') return false;
      character = is_number ? character_of(std::string_view(masked_).substr(at + 2, 4)) : "/";
    } else if (character[0] == '[') {
      const std::string candidate = masked_.substr(at, kPlaceholderBytes);
      if (candidate.size() < kPlaceholderBytes && begins_placeholder(candidate)) return undecided();
      if (placeholders_.value_of(candidate) == nullptr) return false;
      size = kPlaceholderBytes;
      character = "x";
    }
    for (const char c : character) {
      last_bytes = last_bytes << 8 | static_cast<unsigned char>(c);
      if (ends_word(last_bytes)) return false;
      if (joint != 0) return is_letter(c) || ((joint == ':' || joint == '/') && c == '/');
      if (c == '.' || c == '/' || c == '@' || c == '?' || c == ':') joint = c;
      if (joint == 0 && !is_host_sign(c)) return false;
    }
    at += size;
  }
  return undecided();
}

RestoredText::Piece RestoredText::take_piece() {
  Piece piece;
  if (std::exchange(revised_, false) && !restored_.starts_with(shown_)) {
    auto common =
        static_cast<std::size_t>(std::ranges::mismatch(restored_, shown_).in1 - restored_.begin());
    // Move back to a character boundary.
    while (common > 0 && (static_cast<unsigned char>(shown_[common]) & 0xC0u) == 0x80u) --common;
    shown_.resize(common);
    piece.revise_from = utf8_count(shown_);
  }
  piece.text = restored_.substr(shown_.size());
  shown_ += piece.text;
  return piece;
}

RestoredText::Piece RestoredText::push(std::string_view masked) {
  masked_ += masked;
  read(/*whole=*/false);
  return take_piece();
}

void RestoredText::revise(std::size_t characters) {
  masked_.resize(bytes_of(masked_, characters));
  revised_ = true;
  read_again();
}

RestoredText::Piece RestoredText::finish() {
  read(/*whole=*/true);
  return take_piece();
}

std::string restored(std::string_view masked, RestoredText start) {
  start.push(masked);
  start.finish();
  return start.text();
}

std::string restored(std::string_view masked, const Placeholders& placeholders, bool in_json) {
  return restored(masked, RestoredText(placeholders, in_json));
}

}  // namespace edgedraft::client
