#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <unordered_map>
#include <vector>

namespace edgedraft {

// The merges of byte-pair encoding: which neighbours become one entry, and which go first.
class Merges {
 public:
  void reserve(std::size_t count) { table_.reserve(count); }
  // The next merge. Where two join the same pair the first counts.
  void add(std::uint32_t left, std::uint32_t right, std::uint32_t merged);

  // Joins neighbours in `ids`, the earliest merge first and of the same the leftmost, until none
  // is left.
  // Cost      n log n
  void apply(std::vector<std::uint32_t>& ids) const;

 private:
  struct Merge {
    std::uint32_t rank;
    std::uint32_t merged;
  };
  const Merge* find(std::uint32_t left, std::uint32_t right) const;

  std::unordered_map<std::uint64_t, Merge> table_;
  std::uint32_t next_rank_ = 0;
};

}  // namespace edgedraft
