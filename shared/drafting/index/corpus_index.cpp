#include "shared/drafting/index/corpus_index.h"

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "shared/base/check.h"

namespace edgedraft {
namespace {

constexpr std::string_view kMagic = "EDGEIDX\n";
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kPublic = 1;  // in the flags

// Header offsets.
constexpr std::size_t kVersionAt = 8;
constexpr std::size_t kFlagsAt = 12;
constexpr std::size_t kVocabularyAt = 16;
constexpr std::size_t kTokensAt = 20;
constexpr std::size_t kSuffixesAt = 24;
constexpr std::size_t kTokenizerAt = 32;
constexpr std::size_t kContentAt = 64;
constexpr std::size_t kHeaderDigestAt = 96;

}  // namespace

Bytes to_header(const IndexFacts& facts) {
  Bytes header(kIndexHeaderBytes);
  std::byte* const start = header.data();
  std::ranges::copy(as_byte_view(kMagic), start);
  store_le(start + kVersionAt, kVersion);
  store_le(start + kFlagsAt, facts.is_public ? kPublic : 0u);
  store_le(start + kVocabularyAt, facts.vocabulary_count);
  store_le(start + kTokensAt, facts.token_count);
  store_le(start + kSuffixesAt, facts.suffix_count);
  std::ranges::copy(facts.tokenizer, start + kTokenizerAt);
  std::ranges::copy(facts.content, start + kContentAt);
  std::ranges::copy(sha256(ByteView(header).first(kHeaderDigestAt)), start + kHeaderDigestAt);
  return header;
}

Result<CorpusIndex> CorpusIndex::open(const std::filesystem::path& path) {
  auto file = MappedFile::open(path);
  if (!file) return file.error();
  auto index = parse(file->bytes());
  if (!index) return in_file(path, index.error());
  index->file_ = std::move(*file);
  return index;
}

Result<std::vector<CorpusIndex>> CorpusIndex::open_public(
    std::span<const std::filesystem::path> paths) {
  std::vector<CorpusIndex> indexes;
  for (const std::filesystem::path& path : paths) {
    auto index = open(path);
    if (!index) return index.error();
    if (!index->facts().is_public) {
      return Error{
          Errc::usage,
          path.string() +
              ": not declared public, and drafts from it would show its texts to the other "
              "side; if they are public, make it with `edgedraft index --public`"};
    }
    indexes.push_back(std::move(*index));
  }
  return indexes;
}

Result<CorpusIndex> CorpusIndex::parse(ByteView bytes) {
  if (bytes.size() < kIndexHeaderBytes ||
      !std::ranges::equal(bytes.first(kMagic.size()), as_byte_view(kMagic))) {
    return bad_file("not an index; make one from a corpus with `edgedraft index`");
  }
  const std::byte* const header = bytes.data();
  EDGEDRAFT_CHECK(reinterpret_cast<std::uintptr_t>(header) % alignof(std::uint32_t) == 0);
  const auto version = load_le<std::uint32_t>(header + kVersionAt);
  if (version != kVersion) {
    return bad_file("an index of version " + std::to_string(version) +
                    "; this program reads version " + std::to_string(kVersion) +
                    "; make it again with `edgedraft index`");
  }
  if (!std::ranges::equal(sha256(bytes.first(kHeaderDigestAt)),
                          bytes.subspan(kHeaderDigestAt, sizeof(Digest)))) {
    return bad_file("its header is damaged; make it again with `edgedraft index`");
  }
  CorpusIndex index;
  IndexFacts& facts = index.facts_;
  const auto flags = load_le<std::uint32_t>(header + kFlagsAt);
  facts.is_public = (flags & kPublic) != 0;
  facts.vocabulary_count = load_le<std::uint32_t>(header + kVocabularyAt);
  facts.token_count = load_le<std::uint32_t>(header + kTokensAt);
  facts.suffix_count = load_le<std::uint32_t>(header + kSuffixesAt);
  std::ranges::copy(bytes.subspan(kTokenizerAt, sizeof(Digest)), facts.tokenizer.begin());
  std::ranges::copy(bytes.subspan(kContentAt, sizeof(Digest)), facts.content.begin());
  if ((flags & ~kPublic) != 0 || facts.token_count > kIndexTokensMax ||
      facts.suffix_count > facts.token_count || facts.vocabulary_count == kDocumentEnd) {
    return bad_file("its header is invalid");
  }
  const std::uint64_t size =
      kIndexHeaderBytes + 4 * (std::uint64_t{facts.token_count} + facts.suffix_count);
  if (bytes.size() != size) {
    return bad_file("has " + std::to_string(bytes.size()) + " bytes, but its header says " +
                    std::to_string(size) + ": it was truncated or extended");
  }
  index.content_ = bytes.subspan(kIndexHeaderBytes);
  const auto* const numbers = reinterpret_cast<const std::uint32_t*>(index.content_.data());
  index.tokens_ = {numbers, facts.token_count};
  index.suffixes_ = {numbers + facts.token_count, facts.suffix_count};
  return index;
}

Result<void> CorpusIndex::check_content() const {
  if (sha256(content_) == facts_.content) return {};
  return bad_file("its content is damaged; make it again with `edgedraft index`");
}

int CorpusIndex::compare(std::uint32_t suffix, std::span<const std::uint32_t> run) const {
  const auto text = tokens(suffix, 0, static_cast<std::uint32_t>(run.size()));
  for (std::size_t i = 0; i < run.size(); ++i) {
    if (i == text.size()) return -1;  // a shorter text sorts before its continuations
    if (text[i] != run[i]) return text[i] < run[i] ? -1 : 1;
  }
  return 0;
}

std::uint32_t CorpusIndex::lower_bound(std::span<const std::uint32_t> run) const {
  std::uint32_t low = 0;
  std::uint32_t high = facts_.suffix_count;
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    compare(middle, run) < 0 ? low = middle + 1 : high = middle;
  }
  return low;
}

CorpusIndex::Range CorpusIndex::range_from(std::uint32_t begin,
                                           std::span<const std::uint32_t> run) const {
  // Most runs occur rarely, so search for the end near the beginning.
  std::uint32_t low = begin;
  std::uint32_t step = 1;
  while (step < facts_.suffix_count - low && compare(low + step, run) == 0) {
    low += step;
    step *= 2;
  }
  std::uint32_t high = low + std::min(step, facts_.suffix_count - low);
  while (low < high) {
    const std::uint32_t middle = low + (high - low) / 2;
    compare(middle, run) > 0 ? high = middle : low = middle + 1;
  }
  return {.begin = begin, .end = low};
}

CorpusIndex::Range CorpusIndex::find(std::span<const std::uint32_t> run) const {
  EDGEDRAFT_CHECK(!run.empty() && run.size() <= kIndexOrder);
  return range_from(lower_bound(run), run);
}

CorpusIndex::Match CorpusIndex::longest_match(std::span<const std::uint32_t> context,
                                              std::uint32_t length_max) const {
  EDGEDRAFT_CHECK(length_max <= kIndexOrder);
  // If a run occurs, so do its shorter suffixes.
  std::uint32_t length = 0;
  std::uint32_t begin = 0;
  std::uint32_t missing = std::min(length_max, static_cast<std::uint32_t>(context.size())) + 1;
  while (length + 1 < missing) {
    const std::uint32_t tried = length + (missing - length) / 2;
    const auto run = context.last(tried);
    const std::uint32_t first = lower_bound(run);
    if (first == facts_.suffix_count || compare(first, run) != 0) {
      missing = tried;
    } else {
      length = tried;
      begin = first;
    }
  }
  if (length == 0) return {};
  return {.length = length, .suffixes = range_from(begin, context.last(length))};
}

void CorpusIndex::prefetch(std::span<const std::uint32_t> suffixes, std::uint32_t offset) const {
  for (const std::uint32_t suffix : suffixes) {
    EDGEDRAFT_CHECK(suffix < suffixes_.size());
    __builtin_prefetch(&suffixes_[suffix]);
  }
  for (const std::uint32_t suffix : suffixes) {
    const std::uint64_t first = std::uint64_t{suffixes_[suffix]} + offset;
    if (first < tokens_.size()) __builtin_prefetch(&tokens_[first]);
  }
}

std::span<const std::uint32_t> CorpusIndex::tokens(std::uint32_t suffix, std::uint32_t offset,
                                                   std::uint32_t count_max) const {
  EDGEDRAFT_CHECK(suffix < suffixes_.size());
  const std::uint64_t first = std::uint64_t{suffixes_[suffix]} + offset;
  if (first >= tokens_.size()) return {};
  const auto text =
      tokens_.subspan(first, std::min<std::uint64_t>(count_max, tokens_.size() - first));
  // Stops at a document's end and, in a damaged file, at anything that is not a token.
  const auto end = std::ranges::find_if(
      text, [&](std::uint32_t token) { return token >= facts_.vocabulary_count; });
  return text.first(static_cast<std::size_t>(end - text.begin()));
}

}  // namespace edgedraft
