#include "shared/model/tokenizer/merges.h"

#include <limits>
#include <queue>
#include <string>
#include <tuple>
#include <utility>

namespace edgedraft {
namespace {

constexpr std::size_t kNone = std::numeric_limits<std::size_t>::max();

// A symbol of the word; a merge adds the right one's span to the left one.
struct Symbol {
  std::uint32_t id;
  std::size_t previous;
  std::size_t next;
  bool alive = true;
};

// Two neighbours at the time they were found.
struct Candidate {
  std::uint32_t rank;
  std::size_t left;
  std::uint32_t left_id;
  std::uint32_t right_id;
  std::uint32_t merged;

  // std::priority_queue returns the greatest.
  bool operator<(const Candidate& other) const {
    return std::tie(rank, left) > std::tie(other.rank, other.left);
  }
};

std::uint64_t key_of(std::uint32_t left, std::uint32_t right) {
  return std::uint64_t{left} << 32 | right;
}

}  // namespace

void Merges::add(std::uint32_t left, std::uint32_t right, std::uint32_t merged) {
  table_.try_emplace(key_of(left, right), Merge{next_rank_++, merged});
}

const Merges::Merge* Merges::find(std::uint32_t left, std::uint32_t right) const {
  const auto found = table_.find(key_of(left, right));
  return found == table_.end() ? nullptr : &found->second;
}

void Merges::apply(std::vector<std::uint32_t>& ids) const {
  if (ids.size() < 2) return;
  std::vector<Symbol> symbols;
  symbols.reserve(ids.size());
  for (std::size_t i = 0; i < ids.size(); ++i) {
    symbols.push_back({ids[i], i == 0 ? kNone : i - 1, i + 1 == ids.size() ? kNone : i + 1});
  }
  std::priority_queue<Candidate> queue;
  const auto consider = [&](std::size_t left, std::size_t right) {
    if (left == kNone || right == kNone) return;
    const std::uint32_t left_id = symbols[left].id;
    const std::uint32_t right_id = symbols[right].id;
    if (const Merge* merge = find(left_id, right_id)) {
      queue.push({merge->rank, left, left_id, right_id, merge->merged});
    }
  };
  for (std::size_t i = 0; i + 1 < symbols.size(); ++i) consider(i, i + 1);

  while (!queue.empty()) {
    const Candidate best = queue.top();
    queue.pop();
    Symbol& left = symbols[best.left];
    if (!left.alive || left.id != best.left_id || left.next == kNone) continue;
    Symbol& right = symbols[left.next];
    if (right.id != best.right_id) continue;  // merged in the meantime
    right.alive = false;
    left.id = best.merged;
    left.next = right.next;
    if (left.next != kNone) symbols[left.next].previous = best.left;
    consider(left.previous, best.left);
    consider(best.left, left.next);
  }

  ids.clear();
  for (std::size_t i = 0; i != kNone; i = symbols[i].next) ids.push_back(symbols[i].id);
}

namespace {

EntryIndex index_of(const Vocabulary& vocabulary) {
  EntryIndex index;
  index.reserve(vocabulary.texts.size());
  for (std::size_t i = 0; i < vocabulary.texts.size(); ++i) {
    if (vocabulary.types[i] == TokenType::unused) continue;
    index.try_emplace(vocabulary.texts[i], static_cast<std::uint32_t>(i));
  }
  return index;
}

Result<Merges> read_merges(const GgufFile& file, const Vocabulary& vocabulary,
                           const EntryIndex& index) {
  const auto lines = file.get_strings("tokenizer.ggml.merges");
  if (!lines) return lines.error();
  Merges merges;
  merges.reserve(lines->size());
  for (const std::string_view line : *lines) {
    const std::size_t space = line.find(' ', 1);
    const Error wrong{Errc::bad_file, "the merge '" + std::string(line.substr(0, 80)) +
                                          "' uses an entry that is not in the vocabulary"};
    if (space == line.npos) return wrong;
    const std::string_view left = line.substr(0, space);
    const std::string_view right = line.substr(space + 1);
    const auto left_id = index.find(left);
    const auto right_id = index.find(right);
    if (left_id == index.end() || right_id == index.end()) return wrong;
    const auto merged = index.find(std::string(left) += right);
    if (merged == index.end()) return wrong;
    if (vocabulary.is_control(merged->second)) continue;
    merges.add(left_id->second, right_id->second, merged->second);
  }
  return merges;
}

}  // namespace

Result<BpeTable> read_bpe_table(const GgufFile& file, const Vocabulary& vocabulary) {
  EntryIndex index = index_of(vocabulary);
  auto merges = read_merges(file, vocabulary, index);
  if (!merges) return merges.error();
  std::erase_if(index, [&](const auto& entry) { return vocabulary.is_control(entry.second); });
  return BpeTable{.index = std::move(index), .merges = std::move(*merges)};
}

}  // namespace edgedraft
