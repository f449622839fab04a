#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <span>
#include <vector>

#include "shared/base/bytes.h"
#include "shared/base/error.h"
#include "shared/base/sha256.h"
#include "shared/model/mapped_file.h"

namespace edgedraft {

// Suffixes of a corpus are in order by so many tokens; what two have in common beyond that is not
// told apart. A context to look up and what is copied behind it have to fit.
inline constexpr std::uint32_t kIndexOrder = 32;

// What an index file says of itself.
struct IndexFacts {
  std::uint32_t vocabulary_count = 0;
  std::uint32_t token_count = 0;   // with a separator behind each document
  std::uint32_t suffix_count = 0;  // one for each token that is no separator
  // Its maker declared that everybody may know what is in it, so that what is drafted from it may
  // be sent.
  bool is_public = false;
  Digest tokenizer{};  // tokenizer_fingerprint() of the model whose tokens they are
  Digest content{};    // SHA-256 of everything behind the header
};

// A file of little-endian numbers: a header of kIndexHeaderBytes, the corpus as tokens of four
// bytes, and the positions of its suffixes in order, four bytes each. A suffix ends with its
// document, comes behind those that it goes on from, and of equal ones (in kIndexOrder tokens) the
// earlier is first. So the suffixes that begin with a run of tokens are side by side, and those
// that go on alike are so in turn: the order is a prefix trie of the corpus in four bytes a token.
inline constexpr std::size_t kIndexHeaderBytes = 128;
inline constexpr std::uint32_t kDocumentEnd = 0xFFFF'FFFF;
// Positions are 32-bit numbers, and kDocumentEnd is none.
inline constexpr std::uint64_t kIndexTokensMax = 0xFFFF'FFFE;

// The header of a file with these facts.
Bytes to_header(const IndexFacts& facts);

// An index file, mapped read-only.
//
// Opening checks the header and the file's length, not every number in it, which would read all of
// a file that may have gigabytes: a look-up takes no number on trust instead. In a file that
// somebody has tampered with it finds something else, or nothing; what is found are tokens of the
// vocabulary in any case.
//
// Threads   const methods may run concurrently
class CorpusIndex {
 public:
  // Errors    io; bad_file: no index, of another version, damaged, or of another length than it
  //           says
  static Result<CorpusIndex> open(const std::filesystem::path& path);
  // The same of bytes that outlive the result. Requires  aligned to four bytes
  static Result<CorpusIndex> parse(ByteView bytes);

  // Opens those of files whose content may be known to who is sent what is drafted from it.
  // Errors    those of open(); usage: one was not declared public
  static Result<std::vector<CorpusIndex>> open_public(std::span<const std::filesystem::path> paths);

  const IndexFacts& facts() const { return facts_; }
  // Reads everything, a second for each gigabyte or two.
  // Errors    bad_file: the content is not what was written
  Result<void> check_content() const;

  // Suffixes begin..end - 1 of the order.
  struct Range {
    std::uint32_t begin = 0;
    std::uint32_t end = 0;

    std::uint32_t count() const { return end - begin; }
    bool empty() const { return begin == end; }
    bool operator==(const Range&) const = default;
  };
  // Those that begin with `run`.
  //
  // Requires  1 <= run.size() <= kIndexOrder
  // Cost      two binary searches
  Range find(std::span<const std::uint32_t> run) const;

  // The longest end of a context that stands in the corpus, and where.
  struct Match {
    std::uint32_t length = 0;  // 0: not even its last token does
    Range suffixes;
  };
  // Looks at the last `length_max` tokens, which is at most kIndexOrder.
  Match longest_match(std::span<const std::uint32_t> context, std::uint32_t length_max) const;

  // At most `count_max` tokens of a suffix, from the one at `offset` on; they end with its
  // document.
  //
  // Requires  suffix < facts().suffix_count
  std::span<const std::uint32_t> tokens(std::uint32_t suffix, std::uint32_t offset,
                                        std::uint32_t count_max) const;
  // Has the processor fetch what tokens() of several suffixes would wait for, one after the other.
  //
  // Requires  as tokens()
  void prefetch(std::span<const std::uint32_t> suffixes, std::uint32_t offset) const;

 private:
  // The first suffix that does not come before those that begin with `run`.
  std::uint32_t lower_bound(std::span<const std::uint32_t> run) const;
  // Those from `begin`, their first, on.
  Range range_from(std::uint32_t begin, std::span<const std::uint32_t> run) const;
  // Below, at or above 0: the suffix comes before those that begin with `run`, is one of them, or
  // comes behind them.
  int compare(std::uint32_t suffix, std::span<const std::uint32_t> run) const;

  MappedFile file_;  // nothing if the bytes are another's
  ByteView content_;
  IndexFacts facts_;
  std::span<const std::uint32_t> tokens_;
  std::span<const std::uint32_t> suffixes_;
};

}  // namespace edgedraft
