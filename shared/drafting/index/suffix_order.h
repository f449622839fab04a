#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "shared/base/error.h"
#include "shared/drafting/index/scratch_file.h"

namespace edgedraft {

// What a sort of suffixes may use.
struct SuffixSortOptions {
  std::uint64_t memory_bytes;                  // of the heap, at least 16 for each of 2 suffixes
  std::filesystem::path beside;                // where temporary files may lie
  std::function<void(std::uint64_t)> advance;  // told of suffixes, each twice
};

// Gives the suffixes of a corpus in the order of an index (corpus_index.h) to `take`, in pieces.
// Positions are sorted in as many runs as memory asks for, and the runs merged.
//
// A sort for byte suffixes, such as libdivsufsort's, would serve worse: it needs five bytes of
// memory per byte of text, so fifteen or twenty per token of three or four bytes, sorts three or
// four times as many suffixes as there are, and cannot be told to stop at kIndexOrder tokens, by
// which runs that were sorted apart can be merged and come out the same whatever memory there is.
//
// Requires  tokens of at most kIndexTokensMax, each document's last one kDocumentEnd
// Errors    io, and those of `take`
// Cost      close to n log n; a suffix's text is read once for every two tokens that it shares with
//           its neighbours
Result<void> sort_suffixes(std::span<const std::uint32_t> tokens, const SuffixSortOptions& options,
                           const std::function<Result<void>(std::span<const std::uint32_t>)>& take);

}  // namespace edgedraft
