#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <vector>

#include "client/privacy/folded_text.h"
#include "client/privacy/private_span.h"

namespace edgedraft {

// What is equal here is the same value, however it is written. Empty for what says nothing: blanks,
// and what folding leaves out.
std::u32string canonical_value(std::string_view value, PrivateType type);

// Values that are private from the moment they were marked or detected. Clients send a conversation
// again and again, without marks and in other spellings: a value is found whatever its case,
// accents, line breaks and quotation marks, and a number however its digits are grouped.
class PrivateVault {
 public:
  static constexpr std::size_t kValuesMax = 10'000;
  // Names that are private from the start, which take no other value's room.
  static constexpr std::size_t kNamesMax = 10'000;

  // False if it is full. Not added is what is known, what says nothing, and one or two signs of
  // ASCII ("."), which would be found in all text. `grouped`: it is found however it is grouped, as
  // it is by its type, or as a number is.
  bool add(std::string_view value, PrivateType type, bool grouped = false);
  // The same for what a detector found, and would find again. `as_written`: it is found as it is
  // written, too, whatever stands around it, where its type says that it is found by its letters
  // and digits alone.
  bool add_detected(std::string_view value, PrivateType type, bool as_written = false);
  bool add_name(std::string_view name);
  // All that a copy was given or that detectors found for it. What detectors found before makes
  // room where there is none.
  void add_all(const PrivateVault& copy);
  // Makes room of what came by add_detected() alone.
  void forget_detected() { detected_ = {}; }

  // Where values stand, from left to right; values that overlap are one span. A short value counts
  // only where it is a word of its own, so that "Al" is not found in "also". Escapes, as of JSON,
  // stand for what they mean.
  std::vector<PrivateSpan> find(std::string_view text) const;
  struct Known {
    std::string text;  // its escapes read, but for blanks around it, if it is a value only so
    PrivateType type;
  };
  // What is a value from its beginning to its end.
  std::optional<Known> known_as(std::string_view value) const;
  // That of canonical_value(), and the same however a value is grouped that is found so.
  std::u32string identity_of(std::string_view value, PrivateType type) const;

 private:
  struct Form {
    std::u32string text;
    PrivateType type;
  };
  // Values in one form: as they are written, or as letters and digits alone.
  struct Forms {
    // Requires  it is not known
    void add(std::u32string text, PrivateType type);

    std::vector<Form> all;
    std::unordered_set<std::u32string> known;
    std::unordered_map<std::uint64_t, std::vector<std::uint32_t>> by_beginning;
  };

  struct Values {
    bool empty() const { return written.all.empty() && compacted.all.empty(); }

    std::size_t count = 0;
    Forms written;
    Forms compacted;
  };

  // Which forms it is found by, where its type does not say.
  struct Finding {
    bool grouped = false;
    bool as_written = false;
  };
  bool add_to(Values& values, bool has_room, std::string_view value, PrivateType type,
              Finding finding);
  bool has_values() const { return !given_.empty() || !detected_.empty() || !names_.empty(); }
  // The same as find(), but that escapes are characters like others.
  std::vector<PrivateSpan> find_literally(std::string_view text) const;
  bool knows_compacted(const std::u32string& text) const;
  void find_in(const FoldedText& text, const Forms& forms, bool grouped,
               std::vector<PrivateSpan>& found) const;

  Values given_;
  Values detected_;
  Values names_;
};

// Sorts spans and makes one of those that overlap, of the longest one's type, or of two as long of
// the one that says more than `text`: what any of them covers stays covered.
void join_overlapping(std::vector<PrivateSpan>& spans);

// Whether one of them covers all of `span`. Requires  they are sorted, and none overlaps another
bool is_covered_by(std::span<const PrivateSpan> spans, const PrivateSpan& span);

}  // namespace edgedraft
