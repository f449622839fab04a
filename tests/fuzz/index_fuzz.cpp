#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <vector>

#include "shared/drafting/index/corpus_index.h"
#include "shared/drafting/index/retrieval_drafter.h"

// Any bytes give an index or an error. Lookups return tokens of the vocabulary, each continuation
// once.
extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  using namespace edgedraft;
  std::vector<std::uint32_t> aligned((size + 3) / 4);
  if (size > 0) std::memcpy(aligned.data(), data, size);
  const auto bytes = std::as_writable_bytes(std::span(aligned)).first(size);
  (void)CorpusIndex::parse(bytes);
  if (size < kIndexHeaderBytes) return 0;
  // A fuzzer cannot guess a digest, so the one at the end of the header is corrected.
  const auto digest_bytes = bytes.subspan(kIndexHeaderBytes - sizeof(Digest), sizeof(Digest));
  std::ranges::copy(sha256(bytes.first(kIndexHeaderBytes - sizeof(Digest))), digest_bytes.begin());
  const auto index = CorpusIndex::parse(bytes);
  if (!index) return 0;
  (void)index->check_content();
  std::vector<std::uint32_t> context{0, 1, 2};
  for (std::uint32_t suffix = 0; suffix < std::min(index->facts().suffix_count, 16u); ++suffix) {
    const DraftTree tree = continuation_tree(*index, context, {});
    for (std::uint32_t row = 1; row < tree.row_count(); ++row) {
      if (tree.token(row) >= index->facts().vocabulary_count) std::abort();
      if (tree.child(tree.parent(row), tree.token(row)) != row) std::abort();
    }
    const auto tokens = index->tokens(suffix, 0, kMatchMax);
    context.assign(tokens.begin(), tokens.end());
  }
  return 0;
}
