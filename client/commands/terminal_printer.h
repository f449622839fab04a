#pragma once

#include <iosfwd>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "client/generation/generation.h"
#include "client/privacy/restored_text.h"
#include "client/text/channel_text.h"
#include "shared/model/tokenizer.h"

namespace edgedraft::client {

// How an unfinished answer is shown.
enum class Display : std::uint8_t {
  live_styled,  // all text at once, offline text dim, corrections marked: a terminal
  live_plain,   // the same without ANSI codes: NO_COLOR
  final_text,   // in order, final text only: a pipe or file
  silent,       // notes only
};

// Shows an answer as it arrives. Text without a chat template (LeadingSpace::keep) keeps the marks
// of channels. Notes ("offline: ...") go into the text on a terminal, otherwise
// to their own stream.
//
// Requires  tokenizer and streams outlive it
class TerminalPrinter final : public GenerationObserver {
 public:
  struct Streams {
    std::ostream& text;
    std::ostream& notes;
  };
  TerminalPrinter(const Tokenizer& tokenizer, LeadingSpace leading_space, Display display,
                  const Streams& streams);

  // Begins an answer with these placeholders, shown as their values; null: none. `stays_here`: the
  // device answers alone, so link states are not shown.
  void begin(std::shared_ptr<const Placeholders> placeholders = nullptr, bool stays_here = false);
  // Prints a note beside the answer.
  void note(const std::string& what) { mark(what); }
  // Ends the answer: shows held-back text and ends the line. A later correction may add text.
  void finish();
  // The whole answer.
  std::string text() const;

  void on_token(std::uint32_t token, Provenance provenance) override;
  void on_confirmed(std::uint32_t first, std::uint32_t end) override;
  void on_kept(std::uint32_t count) override;
  void on_rewrite(std::uint32_t index) override;
  void on_state(ClientState state, const std::string& why) override;

 private:
  bool live() const { return display_ == Display::live_styled || display_ == Display::live_plain; }
  // Restores placeholders and removes the marks of channels for display.
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
  std::optional<Detokenizer> detokenizer_;  // after the shown tokens
  std::shared_ptr<const Placeholders> placeholders_;
  std::optional<RestoredText> restored_;  // after the shown tokens; empty without placeholders
  std::optional<ChannelText> channels_;   // after the shown tokens; empty without a chat template
  std::uint32_t shown_count_ = 0;
  std::uint32_t final_count_ = 0;  // leading tokens that are final
  std::string line_;               // text of the current line
  bool stays_here_ = false;
  bool finished_ = false;
  bool repeat_line_ = false;  // the corrected line is shown again
};

}  // namespace edgedraft::client
