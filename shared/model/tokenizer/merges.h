#pragma once

#include <cstddef>
#include <cstdint>
#include <unordered_map>
#include <vector>

namespace edgedraft {

// Merges of byte-pair encoding, in order of priority.
class Merges {
 public:
  void reserve(std::size_t count) { table_.reserve(count); }
  // Adds the next merge. The first merge of a pair counts.
  void add(std::uint32_t left, std::uint32_t right, std::uint32_t merged);

  // Merges neighbours in `ids`, earliest merge first, ties leftmost, until none applies.
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
