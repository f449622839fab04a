#pragma once

#include <compare>
#include <cstdint>
#include <functional>
#include <span>

#include "shared/base/error.h"
#include "shared/drafting/index/scratch_file.h"

namespace edgedraft {

// Resources of a suffix sort.
struct SuffixSortOptions {
  std::uint64_t memory_bytes;                  // on the heap, at least 16 for each of 2 suffixes
  std::filesystem::path beside;                // folder for temporary files
  std::function<void(std::uint64_t)> advance;  // receives numbers of suffixes, each counted twice
};

// Passes the suffixes of a corpus in index order (corpus_index.h) to `take`, in pieces. Positions
// are sorted in as many runs as memory requires, then merged.
//
// A sort for byte suffixes, such as libdivsufsort's, fits worse. It needs five bytes of memory per
// byte of text, so 15 to 20 per token. It sorts three or four times as many suffixes. It also
// cannot stop at kIndexOrder tokens, which makes merged runs independent of memory.
//
// Requires  tokens of at most kIndexTokensMax, each document's last one kDocumentEnd
// Errors    io, and those of `take`
// Cost      close to n log n; a suffix's text is read once for every two tokens that it shares with
//           its neighbours
Result<void> sort_suffixes(std::span<const std::uint32_t> tokens, const SuffixSortOptions& options,
                           const std::function<Result<void>(std::span<const std::uint32_t>)>& take);

}  // namespace edgedraft
