#include "client/serve/answer_text.h"

#include <algorithm>
#include <utility>

namespace edgedraft {
namespace {

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char byte) { return (static_cast<unsigned char>(byte) & 0xC0u) != 0x80u; }));
}

}  // namespace

AnswerText::AnswerText(Options options) : options_(std::move(options)) {
  detokenizer_.emplace(options_.tokenizer, options_.leading_space);
}

void AnswerText::add(std::uint32_t token, Provenance provenance) {
  tokens_.push_back(token);
  provenance_.push_back(provenance);
  // A token that the target put behind them makes those before it final.
  if (provenance != Provenance::offline) final_count_ = token_count();
  show();
}

void AnswerText::confirm(std::uint32_t first, std::uint32_t end) {
  std::replace(provenance_.begin() + first, provenance_.begin() + end, Provenance::offline,
               Provenance::verified);
  keep(end);
}

void AnswerText::keep(std::uint32_t count) {
  final_count_ = std::max(final_count_, count);
  show();
}

void AnswerText::rewrite(std::uint32_t index) {
  tokens_.resize(index);
  provenance_.resize(index);
  if (text_ends_.size() <= index) return;
  // The detokenizer as it was then.
  detokenizer_.emplace(options_.tokenizer, options_.leading_space);
  text_.clear();
  text_ends_.clear();
  stopped_ = finished_ = false;
  show();
  if (given_ <= text_.size()) return;
  given_ = text_.size();
  revises_ = true;
}

void AnswerText::finish() {
  final_count_ = token_count();
  show();
  finished_ = true;
  push(detokenizer_->finish());
}

void AnswerText::show() {
  const std::uint32_t count = options_.shows_drafts ? token_count() : final_count_;
  while (text_ends_.size() < count) {
    push(detokenizer_->push(tokens_[text_ends_.size()]));
    text_ends_.push_back(text_.size());
  }
}

void AnswerText::push(const std::string& text) {
  if (stopped_ || text.empty()) return;
  const std::size_t before = text_.size();
  text_ += text;
  std::size_t end = std::string::npos;
  for (const std::string& stop : options_.stops) {
    end = std::min(end, text_.find(stop, before - std::min(before, stop.size() - 1)));
  }
  if (end == std::string::npos) return;
  text_.resize(end);
  for (std::size_t& text_end : text_ends_) text_end = std::min(text_end, end);
  stopped_ = true;
}

// Bytes at the text's end that may be the beginning of a stop string.
std::size_t AnswerText::held_back() const {
  if (stopped_ || finished_) return 0;
  std::size_t most = 0;
  for (const std::string& stop : options_.stops) {
    for (std::size_t size = std::min(stop.size() - 1, text_.size()); size > most; --size) {
      if (text_.ends_with(std::string_view(stop).substr(0, size))) most = size;
    }
  }
  return most;
}

std::vector<AnswerText::Piece> AnswerText::take() {
  std::vector<Piece> pieces;
  std::size_t end = text_.size() - held_back();
  // No half characters.
  while (end > 0 && end < text_.size() && (static_cast<unsigned char>(text_[end]) & 0xC0u) == 0x80u)
    --end;
  if (revises_) {
    pieces.push_back({.text = {},
                      .provenance = Provenance::verified,
                      .revise_from = characters(std::string_view(text_).substr(0, given_))});
    revises_ = false;
  }
  for (std::size_t i = static_cast<std::size_t>(std::ranges::upper_bound(text_ends_, given_) -
                                                text_ends_.begin());
       given_ < end; ++i) {
    // What the last token left unfinished is its own.
    const bool last = i >= text_ends_.size();
    const std::size_t piece_end = last ? end : std::min(text_ends_[i], end);
    const Provenance provenance = provenance_[std::min(i, provenance_.size() - 1)];
    const bool joins =
        !pieces.empty() && (pieces.back().provenance == provenance || pieces.back().text.empty());
    if (!joins) pieces.push_back({});
    pieces.back().provenance = provenance;
    pieces.back().text += text_.substr(given_, piece_end - given_);
    given_ = piece_end;
  }
  return pieces;
}

}  // namespace edgedraft
