#include "shared/model/tokenizer/merges.h"

#include <limits>
#include <queue>
#include <tuple>

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

}  // namespace edgedraft
