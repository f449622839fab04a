#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace edgedraft {

// Hashes of all prefixes of a text, so that the hash of any part takes constant time.
class PrefixHashes {
 public:
  explicit PrefixHashes(std::u32string_view text);
  // Requires  begin + size is at most the text's length
  std::uint64_t of(std::size_t begin, std::size_t size) const;

 private:
  std::vector<std::uint64_t> hashes_;
};

// Finds which of many values a text continues with, in time that is logarithmic in the length of
// the values and independent of how many there are.
// Source    Waldvogel et al., Scalable High Speed IP Routing Lookups, 1997
class ValueIndex {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  ValueIndex() = default;
  // Requires  the values differ, and none is empty
  explicit ValueIndex(std::span<const std::u32string_view> values);

  // The longest value that stands at `begin` and ends at `end` or before.
  std::uint32_t longest(const PrefixHashes& text, std::size_t begin, std::size_t end) const;
  // The longest other value that this one begins with.
  std::uint32_t next_shorter(std::uint32_t value) const { return next_shorter_[value]; }

 private:
  // Longest value that each marker begins with, by the hash of the marker. Markers are prefixes of
  // values: those of the lengths that a binary search for the value tries.
  std::unordered_map<std::uint64_t, std::uint32_t> markers_;
  std::vector<std::uint32_t> next_shorter_;
};

}  // namespace edgedraft
