#include "client/serve/text/visible_text.h"

#include <algorithm>
#include <utility>

#include "client/text/begun_mark.h"
#include "shared/model/utf8.h"

namespace edgedraft::client {

VisibleText::VisibleText(Options options) : options_(std::move(options)) {
  detokenizer_.emplace(options_.tokenizer, options_.leading_space);
}

void VisibleText::add(std::uint32_t token, Provenance provenance) {
  tokens_.push_back(token);
  provenance_.push_back(provenance);
  // A token that the target adds makes the tokens before it final.
  if (provenance != Provenance::offline) final_count_ = token_count();
  show();
}

void VisibleText::confirm(std::uint32_t first, std::uint32_t end) {
  std::replace(provenance_.begin() + first, provenance_.begin() + end, Provenance::offline,
               Provenance::verified);
  keep(end);
}

void VisibleText::keep(std::uint32_t count) {
  final_count_ = std::max(final_count_, count);
  show();
}

void VisibleText::rewrite(std::uint32_t index) {
  tokens_.resize(index);
  provenance_.resize(index);
  if (text_ends_.size() <= index) return;
  // Reset the detokenizer to that token.
  detokenizer_.emplace(options_.tokenizer, options_.leading_space);
  text_.clear();
  text_ends_.clear();
  stopped_ = finished_ = false;
  show();
  // Text held back at the new end may have been shown while more text followed it.
  const std::size_t decided_end = split(open_end()).decided_end;
  if (given_ <= decided_end) return;
  given_ = decided_end;
  revises_ = true;
}

void VisibleText::finish() {
  final_count_ = token_count();
  show();
  finished_ = true;
  push(detokenizer_->finish());
}

void VisibleText::show() {
  const std::uint32_t count = options_.shows_drafts ? token_count() : final_count_;
  while (text_ends_.size() < count) {
    push(detokenizer_->push(tokens_[text_ends_.size()]));
    text_ends_.push_back(text_.size());
  }
}

void VisibleText::push(const std::string& text) {
  if (stopped_ || text.empty()) return;
  const std::size_t before = text_.size();
  text_ += text;
  std::size_t end = std::string::npos;
  for (const std::string& stop : options_.stops) {
    end = std::min(end, text_.find(stop, before - std::min(before, stop.size() - 1)));
  }
  if (end == std::string::npos) return;
  cut(end);
  stopped_ = true;
  // The stop string may end within the token that follows.
  stop_count_ = std::min(static_cast<std::uint32_t>(text_ends_.size()) + 1, token_count());
}

void VisibleText::cut(std::size_t end) {
  text_.resize(end);
  for (std::size_t& text_end : text_ends_) text_end = std::min(text_end, end);
}

void VisibleText::drop_calls() {
  cut(text_.size() - calls_size());
}

// Bytes at the end of the text that are calls, or may become calls.
std::size_t VisibleText::calls_size() const {
  if (options_.calls == nullptr) return 0;
  const std::string_view answer = std::string_view(text_).substr(split(text_.size()).answer_begin);
  return answer.size() - options_.calls->calls_at(answer);
}

// Bytes at the end of the text that may begin a stop string or calls.
std::size_t VisibleText::held_back() const {
  if (stopped_ || finished_) return 0;
  std::size_t most = calls_size();
  for (const std::string& stop : options_.stops) {
    most = std::max(most, begun_mark(text_, stop));
  }
  return most;
}

// End of the text that is not held back, on a character boundary.
std::size_t VisibleText::open_end() const {
  std::size_t end = text_.size() - held_back();
  while (end > 0 && end < text_.size() && (static_cast<unsigned char>(text_[end]) & 0xC0u) == 0x80u)
    --end;
  return end;
}

std::uint32_t VisibleText::given_count() const {
  // Tokens of a stop string are cut off with it.
  const auto cut = stopped_ ? std::ranges::lower_bound(text_ends_, text_.size()) : text_ends_.end();
  const auto end = stopped_ && cut != text_ends_.end() && !text_.empty() ? cut + 1 : cut;
  const auto given = std::upper_bound(text_ends_.begin(), end, given_);
  return static_cast<std::uint32_t>(given - text_ends_.begin());
}

SplitText VisibleText::split(std::size_t end) const {
  if (options_.thoughts == Thoughts::none) return {.decided_end = end};
  const std::string_view shown = std::string_view(text_).substr(0, end);
  return split_thoughts(shown, options_.thoughts, finished_ || stopped_);
}

std::string VisibleText::text() const {
  return text_.substr(split(text_.size()).answer_begin);
}

std::string VisibleText::thought() const {
  const SplitText parts = split(text_.size());
  return text_.substr(parts.thought_begin, parts.thought_end - parts.thought_begin);
}

// Emits revisions: the parts of the returned text that stay.
void VisibleText::take_revision(std::vector<Piece>& pieces, const SplitText& split) {
  if (!std::exchange(revises_, false)) return;
  const auto stays = [&](std::size_t begin, std::size_t end) {
    end = std::min(end, given_);
    return utf8_count(
        std::string_view(text_).substr(std::min(begin, end), end - std::min(begin, end)));
  };
  // During a thought the answer would begin after it.
  if (gave_thought_ && given_ <= split.answer_begin) {
    pieces.push_back({.text = {},
                      .is_thought = true,
                      .revise_from = stays(split.thought_begin, split.thought_end)});
  }
  pieces.push_back({.text = {}, .revise_from = stays(split.answer_begin, text_.size())});
}

std::vector<VisibleText::Piece> VisibleText::take() {
  std::vector<Piece> pieces;
  const SplitText parts = split(open_end());
  take_revision(pieces, parts);
  const auto show = [&](std::size_t to, Provenance provenance, bool is_thought) {
    const bool joins = !pieces.empty() && pieces.back().is_thought == is_thought &&
                       (pieces.back().provenance == provenance || pieces.back().text.empty());
    if (!joins) pieces.push_back({});
    pieces.back().provenance = provenance;
    pieces.back().is_thought = is_thought;
    gave_thought_ = gave_thought_ || is_thought;
    pieces.back().text += text_.substr(given_, to - given_);
  };
  for (std::size_t i = static_cast<std::size_t>(std::ranges::upper_bound(text_ends_, given_) -
                                                text_ends_.begin());
       given_ < parts.decided_end;) {
    // A partial character belongs to the last token.
    const bool last = i >= text_ends_.size();
    const std::size_t token_end =
        last ? parts.decided_end : std::min(text_ends_[i], parts.decided_end);
    const Provenance provenance = provenance_[std::min(i, provenance_.size() - 1)];
    // Marks, and the blanks around them, belong to neither part.
    std::size_t to = token_end;
    for (const std::size_t bound : {parts.thought_begin, parts.thought_end, parts.answer_begin}) {
      if (given_ < bound) to = std::min(to, bound);
    }
    const bool is_thought = given_ >= parts.thought_begin && given_ < parts.thought_end;
    if (is_thought || given_ >= parts.answer_begin) show(to, provenance, is_thought);
    given_ = to;
    if (given_ == token_end) ++i;
  }
  return pieces;
}

}  // namespace edgedraft::client
