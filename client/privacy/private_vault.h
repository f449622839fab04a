#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "client/privacy/folded_text.h"
#include "client/privacy/private_span.h"

namespace edgedraft {

// What is equal here is the same value, however it is written. Empty for what says nothing: blanks.
std::u32string canonical_value(std::string_view value, PrivateType type);

// Values that are private from the moment they were marked or detected. Clients send a conversation
// again and again, without marks and in other spellings: a value is found whatever its case,
// accents, line breaks and quotation marks, and a number however its digits are grouped.
class PrivateVault {
 public:
  static constexpr std::size_t kValuesMax = 10'000;

  // False if it is full. What says nothing, having no letter or digit, or is known, is not added.
  bool add(std::string_view value, PrivateType type);

  // Where values stand, from left to right; values that overlap are one span. A short value counts
  // only where it is a word of its own, so that "Al" is not found in "also".
  std::vector<PrivateSpan> find(std::string_view text) const;

  std::size_t value_count() const { return values_.size(); }

 private:
  struct Value {
    std::u32string text;
    PrivateType type;
  };
  // Values by their first characters.
  using Index = std::unordered_map<std::uint64_t, std::vector<std::uint32_t>>;

  void find_in(const FoldedText& text, const Index& index, std::vector<PrivateSpan>& found) const;

  std::vector<Value> values_;
  std::unordered_map<std::u32string, std::uint32_t> known_;
  Index written_;    // as they are
  Index compacted_;  // as letters and digits alone
};

// Sorts spans and makes one of those that overlap, of the longest one's type: what any of them
// covers stays covered.
void join_overlapping(std::vector<PrivateSpan>& spans);

}  // namespace edgedraft
