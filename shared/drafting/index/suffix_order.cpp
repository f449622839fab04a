#include "shared/drafting/index/suffix_order.h"

#include <algorithm>
#include <queue>

#include "shared/base/check.h"
#include "shared/drafting/index/corpus_index.h"

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

}  // namespace

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

}  // namespace edgedraft
