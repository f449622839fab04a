#pragma once

#include <cstddef>
#include <cstdint>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/gguf.h"
#include "shared/model/tokenizer/vocabulary.h"

namespace edgedraft {

// Merges of byte-pair encoding, in order of priority.
class Merges {
 public:
  void reserve(std::size_t count) { table_.reserve(count); }
  // Adds the next merge. Of merges of the same pair the first counts.
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

// Ids by spelling.
using EntryIndex = std::unordered_map<std::string_view, std::uint32_t>;

// Byte-pair encoding of a vocabulary, to which it refers. Control tokens are left out: no text may
// become one.
struct BpeTable {
  EntryIndex index;  // without unused entries; among equal spellings the first counts
  Merges merges;
};

// Reads tokenizer.ggml.merges: lines "left right", in the vocabulary's spelling.
// Errors    bad_file: a merge of unknown entries
Result<BpeTable> read_bpe_table(const GgufFile& file, const Vocabulary& vocabulary);

}  // namespace edgedraft
