#include "server/hints/hint_tree.h"

#include <algorithm>
#include <functional>
#include <iterator>
#include <numeric>
#include <utility>

#include "shared/base/check.h"
#include "shared/speculative/best_nodes.h"
#include "shared/types/prefix_hash.h"

namespace edgedraft::server {
namespace {

// Ids remembered per node of the largest tree; devices do not refer to older ones.
constexpr std::size_t kIdsPerNode = 4;
// Slack of nodes_max / 4 before eviction; without it, every message to a full tree would scan all
// nodes.
constexpr std::uint32_t kPartBeyond = 4;

}  // namespace

HintTree::HintTree(std::span<const std::uint32_t> tokens, const Limits& limits)
    : limits_(limits),
      base_(static_cast<std::uint32_t>(tokens.size())),
      hashes_{prefix_hash(tokens)},
      nodes_(1) {
  EDGEDRAFT_CHECK(!tokens.empty());
}

std::vector<ScoreSteps> HintTree::add(const wire::Hints& hints) {
  std::vector<ScoreSteps> scores;
  for (std::size_t i = 0; i < hints.nodes.size(); ++i) {
    if (const auto score = add(hints, i)) scores.push_back(*score);
  }
  evict();
  forget_old_ids();
  return scores;
}

std::optional<ScoreSteps> HintTree::add(const wire::Hints& hints, std::size_t index) {
  const std::uint32_t id = hints.first + static_cast<std::uint32_t>(index);
  const auto& [token, distance, score] = hints.nodes[index];
  last_id_ = std::max(last_id_, id);
  const auto found = places_.find(id - distance);
  const bool has_parent =
      distance > 0 ? found != places_.end() : knows_prefix(hints.position, hints.prefix_hash);
  if (!has_parent || places_.contains(id) || token >= limits_.vocabulary_count) {
    ++counts_.unknown;
    return std::nullopt;
  }
  const Place parent =
      distance > 0 ? found->second : Place{.decided = true, .at = hints.position - 1};
  if (parent.decided && parent.at + 1 < length()) {
    if (decided_[parent.at + 1 - base_] != token) {
      ++counts_.contradicted;
      return std::nullopt;
    }
    places_[id] = {.decided = true, .at = parent.at + 1};
    ++counts_.passed;
    return std::nullopt;
  }
  const std::uint32_t above = parent.decided ? 0 : parent.at;
  std::uint32_t node = child(above, token);
  const bool is_new = node == kNone;
  if (is_new) {
    node =
        append({.token = token, .parent = above, .score = nodes_[above].score + from_steps(score)});
  }
  places_[id] = {.decided = false, .at = node};
  ++counts_.taken;
  return is_new ? std::optional(to_steps(nodes_[node].score)) : std::nullopt;
}

void HintTree::add_path(std::span<const std::uint32_t> tokens) {
  std::uint32_t above = 0;
  for (const std::uint32_t token : tokens) {
    const std::uint32_t found = child(above, token);
    above = found != kNone
                ? found
                : append({.token = token, .parent = above, .score = nodes_[above].score});
  }
  evict();
}

bool HintTree::knows_prefix(std::uint32_t position, std::uint64_t hash) const {
  return position >= base_ && position <= length() && hashes_[position - base_] == hash;
}

std::uint32_t HintTree::child(std::uint32_t parent, std::uint32_t token) const {
  std::uint32_t node = nodes_[parent].first_child;
  while (node != kNone && nodes_[node].token != token) node = nodes_[node].next_sibling;
  return node;
}

std::uint32_t HintTree::append(const DraftNode& node) {
  const auto index = static_cast<std::uint32_t>(nodes_.size());
  nodes_.push_back({node, kNone, nodes_[node.parent].first_child});
  nodes_[node.parent].first_child = index;
  return index;
}

void HintTree::advance(std::span<const std::uint32_t> tokens) {
  std::uint32_t root = 0;
  bool on_tree = true;
  std::vector<std::uint32_t> position_of(nodes_.size(), kOutside);
  for (const std::uint32_t token : tokens) {
    if (on_tree) {
      root = child(root, token);
      on_tree = root != kNone;
      if (on_tree) position_of[root] = length();
    }
    decided_.push_back(token);
    hashes_.push_back(prefix_hash(std::span(&token, 1), hashes_.back()));
  }
  for (auto& [id, place] : places_) {
    if (!place.decided && position_of[place.at] != kOutside) {
      place = {.decided = true, .at = position_of[place.at]};
    }
  }
  std::vector<std::uint32_t> kept;
  if (on_tree) {
    const auto index = indices_below(root, nodes_);
    for (std::uint32_t i = root + 1; i < nodes_.size(); ++i) {
      if (index[i] != kOutside) kept.push_back(i);
    }
  }
  rebuild(kept, root);
}

void HintTree::evict() {
  if (node_count() <= limits_.nodes_max + limits_.nodes_max / kPartBeyond) return;
  std::vector<std::uint32_t> kept(node_count());
  std::iota(kept.begin(), kept.end(), 1u);
  counts_.evicted += kept.size() - limits_.nodes_max;
  keep_best(kept, limits_.nodes_max, nodes_);
  rebuild(kept, 0);
}

void HintTree::rebuild(std::span<const std::uint32_t> kept, std::uint32_t root) {
  const std::vector<Node> old = std::exchange(nodes_, std::vector<Node>(1));
  std::vector<std::uint32_t> new_index(old.size(), kOutside);
  new_index[root] = 0;
  for (const std::uint32_t i : kept) {
    new_index[i] = append({.token = old[i].token,
                           .parent = new_index[old[i].parent],
                           .score = old[i].score - old[root].score});
  }
  for (auto entry = places_.begin(); entry != places_.end();) {
    Place& place = entry->second;
    if (!place.decided) place.at = new_index[place.at];
    entry = place.at == kOutside ? places_.erase(entry) : std::next(entry);
  }
}

void HintTree::forget_old_ids() {
  const std::size_t most = kIdsPerNode * limits_.nodes_max;
  if (places_.size() <= most) return;
  places_.erase(places_.begin(),
                std::next(places_.begin(), static_cast<std::ptrdiff_t>(places_.size() - most)));
}

DraftTree HintTree::best(std::uint32_t count) const {
  const auto nodes = std::span(nodes_).subspan(1);
  std::vector<std::uint32_t> ranked(nodes.size());
  std::iota(ranked.begin(), ranked.end(), 0u);
  keep_best(ranked, count, nodes);
  // Parents stay before their children, which score no more.
  std::ranges::stable_sort(ranked, std::greater(), [&](std::uint32_t i) { return nodes[i].score; });
  return tree_of(nodes, ranked);
}

}  // namespace edgedraft::server
