#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/serve/call_form.h"
#include "client/serve/thoughts.h"
#include "shared/model/tokenizer.h"
#include "shared/privacy/taint_ledger.h"

namespace edgedraft {

// An answer's tokens as the text that a client is to see of them: up to the first stop string, no
// half characters, and what is not final held back or not, as the client wants it.
class AnswerText {
 public:
  struct Options {
    const Tokenizer& tokenizer;  // outlives it
    LeadingSpace leading_space = LeadingSpace::strip;
    std::vector<std::string> stops{};
    bool shows_drafts = false;  // what may yet be corrected is shown as well
    Thoughts thoughts = Thoughts::none;
    // How calls are written, that are told when they are whole; null: none are. Outlives it.
    const CallForm* calls = nullptr;
  };
  explicit AnswerText(Options options);

  // What a GenerationObserver is told about the answer's tokens.
  void add(std::uint32_t token, Provenance provenance);
  void confirm(std::uint32_t first, std::uint32_t end);
  void keep(std::uint32_t count);
  void rewrite(std::uint32_t index);
  // No token follows: what was held back is let go.
  void finish();
  // Its calls are told in another way, and are no text.
  void drop_calls();

  // A part of the text, all of one provenance.
  struct Piece {
    std::string text{};
    Provenance provenance = Provenance::verified;
    bool is_thought = false;
    // Before it: of what was given out of the thought, or of the rest, only so many characters
    // (code points) stay.
    std::optional<std::size_t> revise_from{};
  };
  // What is to be shown that was not given out before.
  std::vector<Piece> take();

  // A stop string was found in what is shown; nothing follows it.
  bool stopped() const { return stopped_; }
  // The same, and none of its tokens may yet be corrected.
  bool stopped_for_good() const { return stopped_ && stop_count_ <= final_count_; }
  // All that is shown, without its stop string and the thought.
  std::string text() const;
  std::string thought() const;
  // Leading tokens whose text was given out, or had none.
  std::uint32_t given_count() const;
  std::uint32_t token_count() const { return static_cast<std::uint32_t>(tokens_.size()); }

 private:
  void show();
  void push(const std::string& text);
  SplitText split(std::size_t end) const;
  void cut(std::size_t end);
  std::size_t open_end() const;
  void take_revision(std::vector<Piece>& pieces, const SplitText& split);
  std::size_t held_back() const;
  std::size_t calls_size() const;

  Options options_;
  std::vector<std::uint32_t> tokens_;
  std::vector<Provenance> provenance_;
  std::uint32_t final_count_ = 0;
  std::optional<Detokenizer> detokenizer_;  // has seen the shown tokens
  std::string text_;                        // of the tokens that are shown
  std::vector<std::size_t> text_ends_;      // where it ended behind each of them
  std::size_t given_ = 0;                   // bytes of it that were given out
  bool gave_thought_ = false;               // some of it was a thought's
  bool revises_ = false;                    // of what was given out, some has gone
  bool stopped_ = false;
  std::uint32_t stop_count_ = 0;  // leading tokens that the stop string is in
  bool finished_ = false;
};

}  // namespace edgedraft
