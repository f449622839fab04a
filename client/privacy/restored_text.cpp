#include "client/privacy/restored_text.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <utility>

#include "shared/model/utf8.h"

namespace edgedraft {
namespace {

bool is_letter(char c) {
  return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

bool is_blank(char c) {
  return c == ' ' || c == '\t' || c == '\n' || c == '\r';
}

// Bytes of the first characters.
std::size_t bytes_of(std::string_view text, std::size_t characters) {
  std::size_t at = 0;
  while (at < text.size() && characters-- > 0) at += utf8_front(text.substr(at)).byte_count;
  return at;
}

// Whether more bytes may make a placeholder of it.
bool begins_placeholder(std::string_view text) {
  constexpr std::string_view kForm = "[AAAA_000]";
  return is_placeholder(std::string(text) + std::string(kForm.substr(text.size())));
}

// Between the quotation marks of a JSON string.
std::string escaped(const std::string& text) {
  const std::string json =
      nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  return json.substr(1, json.size() - 2);
}

}  // namespace

void RestoredText::Place::take(char c) {
  if (c == '\n') {
    target_depth = 0;
    target_angled = in_definition = line_begun = line_has_label = false;
  }
  if (is_blank(c)) {
    word_links = false;
    word_begin.clear();
  } else {
    constexpr std::string_view kWeb = "www.";
    if (word_begin.size() < kWeb.size()) word_begin += static_cast<char>(c | 0x20);
    // As a browser has it, either slash will do.
    const auto is_slash = [](char one) { return one == '/' || one == '\\'; };
    word_links = word_links || (is_slash(c) && is_slash(before)) || word_begin == kWeb;
    constexpr std::string_view kMarks = ">*-+";
    if (!line_begun && kMarks.find(c) == std::string_view::npos) {
      line_begun = true;
      line_has_label = c == '[';
    }
  }
  // A tag that is never closed, or a quotation mark, reaches to the text's end.
  if (in_tag) {
    if (quote != 0) {
      if (c == quote) quote = 0;
    } else if (c == '"' || c == '\'') {
      quote = c;
    } else if (c == '>') {
      in_tag = false;
    }
  } else if (before == '<' && (is_letter(c) || c == '/' || c == '!' || c == '?')) {
    in_tag = true;
    quote = 0;
  }
  if (target_depth > 0) {
    const bool escaped = before == '\\';
    if (before == '(' && target_depth == 1 && c == '<') target_angled = true;
    if (target_angled && c == '>' && !escaped) target_angled = false;
    if (!target_angled && c == '(' && !escaped) ++target_depth;
    if (!target_angled && c == ')' && !escaped) --target_depth;
  } else if (before == ']' && c == '(') {
    target_depth = 1;
    target_angled = false;
  }
  if (before == ']' && c == ':' && line_has_label) in_definition = true;
  before = c;
}

void RestoredText::read(bool whole) {
  while (read_ < masked_.size()) {
    const std::string candidate = masked_.substr(read_, kPlaceholderBytes);
    const bool cut = candidate.size() < kPlaceholderBytes;
    if (candidate.front() == '[' && cut && !whole && begins_placeholder(candidate)) return;
    const std::string* const value = cut ? nullptr : placeholders_.value_of(candidate);
    if (value == nullptr) {
      place_.take(candidate.front());
      restored_ += candidate.front();
      ++read_;
      continue;
    }
    const bool stays = place_.may_be_sent_on() || value->size() > kValueBytesMax - value_bytes_;
    if (!stays) value_bytes_ += value->size();
    restored_ += stays ? candidate : in_json_ ? escaped(*value) : *value;
    for (const char c : candidate) place_.take(c);
    read_ += kPlaceholderBytes;
  }
}

RestoredText::Piece RestoredText::take_piece() {
  Piece piece;
  if (std::exchange(revised_, false) && !restored_.starts_with(shown_)) {
    auto common =
        static_cast<std::size_t>(std::ranges::mismatch(restored_, shown_).in1 - restored_.begin());
    // Whole characters alone.
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
  restored_.clear();
  revised_ = true;
  value_bytes_ = 0;
  read_ = 0;
  place_ = {};
  read(/*whole=*/false);
}

RestoredText::Piece RestoredText::finish() {
  read(/*whole=*/true);
  return take_piece();
}

std::string restored(std::string_view masked, const Placeholders& placeholders, bool in_json) {
  RestoredText text(placeholders, in_json);
  text.push(masked);
  text.finish();
  return text.text();
}

}  // namespace edgedraft
