#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/error.h"
#include "shared/base/sha256.h"
#include "shared/model/mapped_file.h"

namespace edgedraft {

// Tokens by which suffixes are ordered; equal beyond that. A looked-up context plus the tokens
// copied after it must fit.
inline constexpr std::uint32_t kIndexOrder = 32;

// Header fields of an index file.
struct IndexFacts {
  std::uint32_t vocabulary_count = 0;
  std::uint32_t token_count = 0;   // including a separator after each document
  std::uint32_t suffix_count = 0;  // one per token other than separators
  // Its maker declared the content public, so drafts from it may be sent.
  bool is_public = false;
  Digest tokenizer{};  // tokenizer_fingerprint() of its model
  Digest content{};    // SHA-256 of everything after the header
};

// File of little-endian numbers: a header of kIndexHeaderBytes, the corpus as tokens of four bytes,
// and the positions of its sorted suffixes, four bytes each. A suffix ends with its document and
// sorts after its own prefixes; of equal ones (in kIndexOrder tokens) the earlier comes first.
// Suffixes with a common prefix are adjacent at every length: the order is a prefix trie of the
// corpus in four bytes per token.
inline constexpr std::size_t kIndexHeaderBytes = 128;
inline constexpr std::uint32_t kDocumentEnd = 0xFFFF'FFFF;
// Limit of 32-bit positions; kDocumentEnd is not one.
inline constexpr std::uint64_t kIndexTokensMax = 0xFFFF'FFFE;

// Encodes the header of a file with these facts.
Bytes to_header(const IndexFacts& facts);

// An index file, mapped read-only.
//
// Opening checks the header and the file's length, not the content, which may have gigabytes.
// Look-ups therefore trust no number: a tampered file yields other matches or none, but always
// tokens of the vocabulary.
//
// Threads   const methods may run concurrently
class CorpusIndex {
 public:
  // Errors    io; bad_file: not an index, another version, damaged, or of the wrong length
  static Result<CorpusIndex> open(const std::filesystem::path& path);
  // As above, for bytes that outlive the result. Requires  aligned to four bytes
  static Result<CorpusIndex> parse(ByteView bytes);

  // Opens indexes for drafts that are sent to others.
  // Errors    those of open(); usage: one was not declared public
  static Result<std::vector<CorpusIndex>> open_public(std::span<const std::filesystem::path> paths);

  const IndexFacts& facts() const { return facts_; }
  // Reads the whole file, about a second per one to two gigabytes.
  // Errors    bad_file: the content does not match its hash
  Result<void> check_content() const;

  // Suffixes begin..end - 1 of the order.
  struct Range {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;

    std::uint32_t count() const { return end - begin; }
    bool empty() const { return begin == end; }
    bool operator==(const Range&) const = default;
  };
  // Suffixes that begin with `run`.
  //
  // Requires  1 <= run.size() <= kIndexOrder
  // Cost      two binary searches
  Range find(std::span<const std::uint32_t> run) const;

  // The longest suffix of a context found in the corpus, and its places.
  struct Match {
    std::uint32_t length = 0;  // 0: not even the last token occurs
    Range suffixes;
  };
  // Considers the last `length_max` tokens, at most kIndexOrder.
  Match longest_match(std::span<const std::uint32_t> context, std::uint32_t length_max) const;

  // Up to `count_max` tokens of a suffix, starting at `offset`; ends with the document.
  //
  // Requires  suffix < facts().suffix_count
  std::span<const std::uint32_t> tokens(std::uint32_t suffix, std::uint32_t offset,
                                        std::uint32_t count_max) const;
  // Prefetches for tokens() of several suffixes, so that their cache misses overlap.
  //
  // Requires  as tokens()
  void prefetch(std::span<const std::uint32_t> suffixes, std::uint32_t offset) const;

 private:
  // First suffix that does not sort before those that begin with `run`.
  std::uint32_t lower_bound(std::span<const std::uint32_t> run) const;
  // The range that starts at `begin`, the first such suffix.
  Range range_from(std::uint32_t begin, std::span<const std::uint32_t> run) const;
  // Negative, 0 or positive: the suffix sorts before those that begin with `run`, is one of them,
  // or sorts after them.
  int compare(std::uint32_t suffix, std::span<const std::uint32_t> run) const;

  MappedFile file_;  // empty if the bytes are external
  ByteView content_;
  IndexFacts facts_;
  std::span<const std::uint32_t> tokens_;
  std::span<const std::uint32_t> suffixes_;
};

}  // namespace edgedraft
