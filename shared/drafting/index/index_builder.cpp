#include "shared/drafting/index/index_builder.h"

#include <algorithm>
#include <compare>
#include <queue>
#include <utility>

#include "shared/base/check.h"
#include "shared/model/atomic_file.h"

namespace edgedraft {
namespace {

struct Entry {
  std::uint64_t key;  // the two tokens currently compared
  std::uint32_t position;

  auto operator<=>(const Entry&) const = default;
};

// Two tokens of a suffix as a number with the same order; a document's end sorts first, and tokens
// after it are ignored.
std::uint64_t key_at(std::span<const std::uint32_t> tokens, std::uint64_t position) {
  const std::uint32_t first = tokens[position] + 1;
  static_assert(kDocumentEnd + 1 == 0);
  if (first == 0) return 0;
  return std::uint64_t{first} << 32 | (tokens[position + 1] + 1);
}

bool has_ended(std::uint64_t key) {
  return static_cast<std::uint32_t>(key) == 0;
}

// Sorts suffixes that share `depth` tokens.
void sort_from(std::span<const std::uint32_t> tokens, std::span<Entry> entries,
               std::uint32_t depth) {
  for (Entry& entry : entries) entry.key = key_at(tokens, std::uint64_t{entry.position} + depth);
  std::sort(entries.begin(), entries.end());
  if (depth + 2 >= kIndexOrder) return;
  for (std::size_t begin = 0; begin < entries.size();) {
    std::size_t end = begin + 1;
    while (end < entries.size() && entries[end].key == entries[begin].key) ++end;
    if (end - begin > 1 && !has_ended(entries[begin].key)) {
      sort_from(tokens, entries.subspan(begin, end - begin), depth + 2);
    }
    begin = end;
  }
}

// Head of a sorted run.
struct Head {
  std::uint64_t key;
  std::span<const std::uint32_t> positions;  // not empty
};

bool is_behind(std::span<const std::uint32_t> tokens, const Head& a, const Head& b) {
  if (a.key != b.key) return a.key > b.key;
  const std::uint64_t at_a = a.positions.front();
  const std::uint64_t at_b = b.positions.front();
  std::uint64_t key = a.key;
  for (std::uint32_t depth = 2; depth < kIndexOrder && !has_ended(key); depth += 2) {
    key = key_at(tokens, at_a + depth);
    const std::uint64_t other = key_at(tokens, at_b + depth);
    if (key != other) return key > other;
  }
  return at_a > at_b;
}

static_assert(kIndexOrder % 2 == 0);

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
// byte of text, so 15 to 20 per token of three or four bytes, and sorts three or four times as many
// suffixes. It also cannot stop at kIndexOrder tokens, which makes merged runs independent of
// memory.
//
// Requires  tokens of at most kIndexTokensMax, each document's last one kDocumentEnd
// Errors    io, and those of `take`
// Cost      close to n log n; a suffix's text is read once for every two tokens that it shares with
//           its neighbours
Result<void> sort_suffixes(
    std::span<const std::uint32_t> tokens, const SuffixSortOptions& options,
    const std::function<Result<void>(std::span<const std::uint32_t>)>& take) {
  EDGEDRAFT_CHECK(tokens.size() <= kIndexTokensMax);
  EDGEDRAFT_CHECK(tokens.empty() || tokens.back() == kDocumentEnd);
  auto sorted = ScratchFile::create(options.beside);
  if (!sorted) return sorted.error();
  constexpr std::size_t kPiece = 1u << 14;
  std::vector<std::uint32_t> piece;
  piece.reserve(kPiece);
  std::vector<std::uint64_t> run_ends;
  {
    std::vector<Entry> entries;
    entries.reserve(std::min<std::uint64_t>(
        std::max<std::uint64_t>(options.memory_bytes / sizeof(Entry), 2), tokens.size()));
    const auto end_run = [&]() -> Result<void> {
      sort_from(tokens, entries, 0);
      for (std::size_t begin = 0; begin < entries.size(); begin += piece.size()) {
        piece.clear();
        for (std::size_t i = begin; i < std::min(begin + kPiece, entries.size()); ++i) {
          piece.push_back(entries[i].position);
        }
        if (auto written = sorted->append(piece); !written) return written.error();
      }
      options.advance(entries.size());
      run_ends.push_back(sorted->count());
      entries.clear();
      return {};
    };
    for (std::size_t position = 0; position < tokens.size(); ++position) {
      if (tokens[position] == kDocumentEnd) continue;
      entries.push_back({.key = 0, .position = static_cast<std::uint32_t>(position)});
      if (entries.size() < entries.capacity()) continue;
      if (auto ended = end_run(); !ended) return ended.error();
    }
    if (auto ended = end_run(); !ended) return ended.error();
  }

  const auto positions = sorted->numbers();
  if (!positions) return positions.error();
  const auto behind = [&](const Head& a, const Head& b) { return is_behind(tokens, a, b); };
  std::priority_queue<Head, std::vector<Head>, decltype(behind)> heads(behind);
  const auto push = [&](std::span<const std::uint32_t> run) {
    if (!run.empty()) heads.push({.key = key_at(tokens, run.front()), .positions = run});
  };
  std::uint64_t run_begin = 0;
  for (const std::uint64_t run_end : run_ends) {
    push(positions->subspan(run_begin, run_end - run_begin));
    run_begin = run_end;
  }
  piece.clear();
  while (!heads.empty()) {
    const Head first = heads.top();
    heads.pop();
    piece.push_back(first.positions.front());
    push(first.positions.subspan(1));
    if (piece.size() < kPiece && !heads.empty()) continue;
    if (auto taken = take(piece); !taken) return taken.error();
    options.advance(piece.size());
    piece.clear();
  }
  return {};
}

}  // namespace

IndexBuilder::IndexBuilder(IndexOptions options, ScratchFile corpus)
    : options_(std::move(options)), corpus_(std::move(corpus)) {}

Result<IndexBuilder> IndexBuilder::create(IndexOptions options) {
  auto corpus = ScratchFile::create(options.output);
  if (!corpus) return corpus.error();
  return IndexBuilder(std::move(options), std::move(*corpus));
}

Result<void> IndexBuilder::add(std::span<const std::uint32_t> document) {
  if (document.empty()) return {};
  EDGEDRAFT_CHECK(std::ranges::all_of(
      document, [&](std::uint32_t token) { return token < options_.vocabulary_count; }));
  if (corpus_.count() + document.size() + 1 > kIndexTokensMax) {
    return Error{
        Errc::usage,
        "the corpus has more tokens than an index can hold: split it and make several indexes"};
  }
  ++document_count_;
  if (auto written = corpus_.append(document); !written) return written.error();
  return corpus_.append(std::span(&kDocumentEnd, 1));
}

Result<IndexFacts> IndexBuilder::finish(std::function<void(std::uint64_t)> advance) {
  if (document_count_ == 0) return Error{Errc::usage, "the corpus is empty"};
  const auto tokens = corpus_.numbers();
  if (!tokens) return tokens.error();
  IndexFacts facts{.vocabulary_count = options_.vocabulary_count,
                   .token_count = static_cast<std::uint32_t>(tokens->size()),
                   .suffix_count = static_cast<std::uint32_t>(tokens->size() - document_count_),
                   .is_public = options_.is_public,
                   .tokenizer = options_.tokenizer};
  auto file = AtomicFile::create(options_.output);
  if (!file) return file.error();
  if (auto room = file->append(Bytes(kIndexHeaderBytes)); !room) return room.error();
  Sha256 content;
  const auto append = [&](std::span<const std::uint32_t> numbers) {
    content.update(std::as_bytes(numbers));
    return file->append(std::as_bytes(numbers));
  };
  if (auto written = append(*tokens); !written) return written.error();
  const auto sorted = sort_suffixes(*tokens,
                                    {.memory_bytes = options_.memory_bytes,
                                     .beside = options_.output,
                                     .advance = std::move(advance)},
                                    append);
  if (!sorted) return sorted.error();
  facts.content = content.finish();
  if (auto written = file->patch(0, to_header(facts)); !written) return written.error();
  if (auto committed = file->commit(); !committed) return committed.error();
  return facts;
}

}  // namespace edgedraft
