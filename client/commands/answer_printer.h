#pragma once

#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/generation/generation.h"
#include "client/privacy/restored_text.h"
#include "shared/model/tokenizer.h"

namespace edgedraft {

// How an answer is shown while it is written.
enum class Display : std::uint8_t {
  live_styled,  // everything at once, offline text dim, corrections marked: a terminal
  live_plain,   // the same without ANSI codes: NO_COLOR
  final_text,   // in order, only what will not change any more: a pipe or file
  silent,       // nothing but notes
};

// Shows an answer as it comes. Notes ("offline: ...") stand in the text on a terminal, else on a
// stream of their own.
//
// Requires  tokenizer and streams outlive it
class AnswerPrinter final : public GenerationObserver {
 public:
  struct Streams {
    std::ostream& text;
    std::ostream& notes;
  };
  AnswerPrinter(const Tokenizer& tokenizer, LeadingSpace leading_space, Display display,
                const Streams& streams);

  // Forgets the last answer. The next one's placeholders are shown as what they stand for; null:
  // there are none. `stays_here`: the device alone answers, so states of the link say nothing.
  void begin(std::shared_ptr<const Placeholders> placeholders = nullptr, bool stays_here = false);
  // A note beside the answer.
  void note(const std::string& what) { mark(what); }
  // The answer is over: shows what was held back, and ends the line. More may follow if the
  // answer is corrected later.
  void finish();
  // All of the answer.
  std::string text() const;

  void on_token(std::uint32_t token, Provenance provenance) override;
  void on_confirmed(std::uint32_t first, std::uint32_t end) override;
  void on_kept(std::uint32_t count) override;
  void on_rewrite(std::uint32_t index) override;
  void on_state(ClientState state, const std::string& why) override;

 private:
  bool live() const { return display_ == Display::live_styled || display_ == Display::live_plain; }
  // As it is to be seen.
  std::string seen(const std::string& text);
  // Writes the tokens below `count` that are not shown yet.
  void show_to(std::uint32_t count);
  void show(const std::string& text, Provenance provenance);
  void mark(const std::string& what);
  void restart_at(std::uint32_t count);

  const Tokenizer& tokenizer_;
  LeadingSpace leading_space_;
  Display display_;
  Streams streams_;

  std::vector<std::uint32_t> tokens_;
  std::vector<Provenance> provenance_;
  std::optional<Detokenizer> detokenizer_;  // has seen the shown tokens
  std::shared_ptr<const Placeholders> placeholders_;
  std::optional<RestoredText> restored_;  // the same, if there are placeholders
  std::uint32_t shown_count_ = 0;
  std::uint32_t final_count_ = 0;  // leading tokens that will not change
  std::string line_;               // what stands on the line that is being written
  bool stays_here_ = false;
  bool finished_ = false;
  bool repeat_line_ = false;  // the corrected line has to be shown again
};

}  // namespace edgedraft
