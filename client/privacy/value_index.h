#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

namespace edgedraft::client {

// Hashes of all prefixes of a text, which give the hash of any part in constant time.
class PrefixHashes {
 public:
  explicit PrefixHashes(std::u32string_view text);
  // Requires  begin + size is at most the text's length
  std::uint64_t of(std::size_t begin, std::size_t size) const;

 private:
  std::vector<std::uint64_t> hashes_;
};

// Finds the values that a text continues with, in time logarithmic in their length and independent
// of their number.
// Source    Waldvogel et al., Scalable High Speed IP Routing Lookups, 1997
class ValueIndex {
 public:
  static constexpr std::uint32_t kNone = UINT32_MAX;

  ValueIndex() = default;
  // Requires  values distinct and not empty
  explicit ValueIndex(std::span<const std::u32string_view> values);

  // Returns the longest value from `begin` that ends at or before `end`.
  std::uint32_t longest(const PrefixHashes& text, std::size_t begin, std::size_t end) const;
  // Returns the longest other value that is a prefix of this one.
  std::uint32_t next_shorter(std::uint32_t value) const { return next_shorter_[value]; }

 private:
  // Longest value per marker, by the marker's hash. Markers are prefixes of values, at the lengths
  // that a binary search probes.
  std::unordered_map<std::uint64_t, std::uint32_t> markers_;
  std::vector<std::uint32_t> next_shorter_;
};

}  // namespace edgedraft::client
