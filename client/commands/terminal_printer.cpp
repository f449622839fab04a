#include "client/commands/terminal_printer.h"

#include <algorithm>
#include <ostream>

#include "shared/base/printable.h"

namespace edgedraft::client {
namespace {

constexpr const char* kDimItalic = "\x1b[2;3m";
constexpr const char* kDim = "\x1b[2m";
constexpr const char* kReset = "\x1b[0m";

}  // namespace

TerminalPrinter::TerminalPrinter(const Tokenizer& tokenizer, LeadingSpace leading_space,
                                 Display display, const Streams& streams)
    : tokenizer_(tokenizer), leading_space_(leading_space), display_(display), streams_(streams) {
  begin();
}

void TerminalPrinter::begin(std::shared_ptr<const Placeholders> placeholders, bool stays_here) {
  placeholders_ = std::move(placeholders);
  stays_here_ = stays_here;
  tokens_.clear();
  provenance_.clear();
  line_.clear();
  final_count_ = 0;
  finished_ = repeat_line_ = false;
  restart_at(0);
}

// Resets the detokenizer to the first `count` tokens.
void TerminalPrinter::restart_at(std::uint32_t count) {
  detokenizer_.emplace(tokenizer_, leading_space_);
  restored_.reset();
  if (placeholders_) restored_.emplace(*placeholders_);
  channels_.reset();
  if (leading_space_ == LeadingSpace::strip) channels_.emplace();
  for (std::uint32_t i = 0; i < count; ++i) (void)seen(detokenizer_->push(tokens_[i]));
  shown_count_ = count;
}

std::string TerminalPrinter::text() const {
  const std::string text = decode(tokenizer_, tokens_, leading_space_);
  return placeholders_ ? restored(text, *placeholders_) : text;
}

std::string TerminalPrinter::seen(const std::string& text) {
  const std::string real = restored_ ? restored_->push(text).text : text;
  return channels_ ? channels_->push(real) : real;
}

void TerminalPrinter::on_token(std::uint32_t token, Provenance provenance) {
  if (finished_) restart_at(shown_count_);
  finished_ = false;
  tokens_.push_back(token);
  provenance_.push_back(provenance);
  const auto count = static_cast<std::uint32_t>(tokens_.size());
  // A token that the target adds makes the tokens before it final.
  if (provenance != Provenance::offline) final_count_ = count;
  show_to(live() ? count : final_count_);
}

void TerminalPrinter::on_confirmed(std::uint32_t first, std::uint32_t end) {
  std::replace(provenance_.begin() + first, provenance_.begin() + end, Provenance::offline,
               Provenance::verified);
  on_kept(end);
}

void TerminalPrinter::on_kept(std::uint32_t count) {
  final_count_ = std::max(final_count_, count);
  if (!live()) show_to(final_count_);
}

void TerminalPrinter::on_rewrite(std::uint32_t index) {
  tokens_.resize(index);
  provenance_.resize(index);
  if (shown_count_ <= index) return;
  if (live()) {
    restart_at(index);
    repeat_line_ = true;
    return;
  }
  // The answer had ended and was shown whole.
  if (display_ == Display::final_text) streams_.text << "[corrected]\n";
  restart_at(0);
}

void TerminalPrinter::on_state(ClientState state, const std::string& why) {
  if (stays_here_) return;
  if (state == ClientState::offline) mark("offline: " + why);
  if (state == ClientState::online) mark("online again: " + why);
}

void TerminalPrinter::mark(const std::string& what) {
  const std::string note = printable(what, Lines::one);
  if (!live()) {
    streams_.notes << "edgedraft: " << note << '\n' << std::flush;
    return;
  }
  if (!line_.empty()) streams_.text << '\n';
  const bool styled = display_ == Display::live_styled;
  streams_.text << (styled ? kDim : "") << '[' << note << ']' << (styled ? kReset : "") << '\n';
  line_.clear();
  if (repeat_line_) {
    // Show the correction from the start of its line.
    const std::string right = channels_ ? ChannelText().push(text()) : text();
    const std::size_t line_begin = right.rfind('\n');
    line_ = line_begin == std::string::npos ? right : right.substr(line_begin + 1);
    streams_.text << printable(line_, Lines::many);
    repeat_line_ = false;
  }
  streams_.text << std::flush;
}

void TerminalPrinter::show_to(std::uint32_t count) {
  for (; shown_count_ < count; ++shown_count_) {
    show(seen(detokenizer_->push(tokens_[shown_count_])), provenance_[shown_count_]);
  }
}

void TerminalPrinter::show(const std::string& text, Provenance provenance) {
  if (text.empty() || display_ == Display::silent) return;
  const bool dim = display_ == Display::live_styled && provenance == Provenance::offline;
  // Files and pipes receive the target's text byte for byte.
  streams_.text << (dim ? kDimItalic : "") << (live() ? printable(text, Lines::many) : text)
                << (dim ? kReset : "") << std::flush;
  const std::size_t line_end = text.rfind('\n');
  line_ = line_end == std::string::npos ? line_ + text : text.substr(line_end + 1);
}

void TerminalPrinter::finish() {
  if (finished_) return;
  finished_ = true;
  const auto count = static_cast<std::uint32_t>(tokens_.size());
  show_to(count);
  std::string rest = seen(detokenizer_->finish());
  if (restored_) {
    const std::string held = restored_->finish().text;
    rest += channels_ ? channels_->push(held) : held;
  }
  if (channels_) rest += channels_->finish();
  show(rest, count == 0 ? Provenance::verified : provenance_.back());
  if (display_ == Display::silent) return;
  if (!line_.empty()) streams_.text << '\n';
  line_.clear();
  streams_.text << std::flush;
}

}  // namespace edgedraft::client
