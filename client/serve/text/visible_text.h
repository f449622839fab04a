#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "client/serve/text/call_form.h"
#include "client/text/thoughts.h"
#include "shared/model/tokenizer.h"
#include "shared/privacy/taint_ledger.h"

namespace edgedraft::client {

// An answer's tokens as client-visible text: up to the first stop string, without partial
// characters. Text that is not final is held back or shown, as the client requests.
class VisibleText {
 public:
  struct Options {
    const Tokenizer& tokenizer;  // outlives it
    LeadingSpace leading_space = LeadingSpace::strip;
    std::vector<std::string> stops{};
    bool shows_drafts = false;  // also shows text that may be corrected
    Thoughts thoughts = Thoughts::none;
    // Form of calls, which are reported once complete; null: no calls. Must outlive this.
    const CallForm* calls = nullptr;
  };
  explicit VisibleText(Options options);

  // Events of a GenerationObserver.
  void add(std::uint32_t token, Provenance provenance);
  void confirm(std::uint32_t first, std::uint32_t end);
  void keep(std::uint32_t count);
  void rewrite(std::uint32_t index);
  // Call after the last token: releases held-back text.
  void finish();
  // Removes calls from the text, because they are reported separately.
  void drop_calls();

  // A part of the text with one provenance.
  struct Piece {
    std::string text{};
    Provenance provenance = Provenance::verified;
    bool is_thought = false;
    // First drop text shown of the thought, or of the rest, after this many characters (code
    // points).
    std::optional<std::size_t> revise_from{};
  };
  // Returns new text to show.
  std::vector<Piece> take();

  // True if the shown text ends at a stop string.
  bool stopped() const { return stopped_; }
  // True if that end can no longer be corrected.
  bool stopped_for_good() const { return stopped_ && stop_count_ <= final_count_; }
  // All shown text, without stop string and thought.
  std::string text() const;
  std::string thought() const;
  // Leading tokens whose text was returned, or that have none.
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
  std::optional<Detokenizer> detokenizer_;  // after the shown tokens
  std::string text_;                        // text of the shown tokens
  std::vector<std::size_t> text_ends_;      // its size after each of them
  std::size_t given_ = 0;                   // bytes of it that were returned
  bool gave_thought_ = false;               // some of those were a thought's
  bool revises_ = false;                    // some returned text was withdrawn
  bool stopped_ = false;
  std::uint32_t stop_count_ = 0;  // leading tokens up to the end of the stop string
  bool finished_ = false;
};

}  // namespace edgedraft::client
