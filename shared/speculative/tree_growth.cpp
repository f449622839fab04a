#include "shared/speculative/tree_growth.h"

#include "shared/base/check.h"
#include "shared/speculative/best_nodes.h"

namespace edgedraft {
namespace {

// Caps a child's score at its parent's; NaN becomes the worst score.
Score score_below(Score parent, float log_prob) {
  const Score sum = log_prob + parent;
  return sum > kScoreMin ? std::min(sum, parent) : kScoreMin;
}

}  // namespace

bool valid(const TreeShape& shape) {
  return shape.breadth >= 1 && shape.breadth <= kTreeBreadthMax && shape.depth >= 1 &&
         shape.copied_depth() <= kTreeDepthMax && shape.nodes >= 1 &&
         shape.nodes <= kTreeNodesMax && (shape.depth - 1) * shape.breadth < kMaskRowsMax;
}

TreeGrowth::TreeGrowth(const TreeShape& shape, GrowthOrder order) : shape_(shape), order_(order) {
  EDGEDRAFT_CHECK(valid(shape));
}

void TreeGrowth::set_shape(const TreeShape& shape) {
  EDGEDRAFT_CHECK(valid(shape));
  shape_ = shape;
  level_ = 1;
}

void TreeGrowth::limit_depth(std::uint32_t depth) {
  depth_limit_ = depth;
  level_ = 1;
}

std::uint32_t TreeGrowth::depth_max() const {
  return std::min(shape_.depth, depth_limit_);
}

std::vector<std::uint32_t> TreeGrowth::frontier(std::uint32_t depth) const {
  std::vector<std::uint32_t> level;
  for (std::uint32_t i = 0; i < candidates_.size(); ++i) {
    if (candidates_[i].depth == depth) level.push_back(i);
  }
  keep_best(level, shape_.breadth, candidates_);
  return level;
}

std::vector<std::uint32_t> TreeGrowth::open() const {
  if (order_ == GrowthOrder::best_first) return best_open();
  for (std::uint32_t depth = level_; depth < depth_max(); ++depth) {
    std::vector<std::uint32_t> level = frontier(depth);
    std::erase_if(level, [&](std::uint32_t i) { return candidates_[i].expanded; });
    if (!level.empty()) return level;
  }
  return {};
}

std::vector<std::uint32_t> TreeGrowth::best_open() const {
  std::vector<std::uint32_t> open;
  for (std::uint32_t i = 0; i < candidates_.size(); ++i) {
    const Candidate& c = candidates_[i];
    if (!c.expanded && c.depth < depth_max() && c.score >= floor_) open.push_back(i);
  }
  keep_best(open, shape_.breadth, candidates_);
  return open;
}

std::vector<GrowthNode> TreeGrowth::nodes(std::span<const std::uint32_t> indices) const {
  const auto row_of = [&](std::uint32_t index) {
    if (candidates_[index].row != kNoRow) return candidates_[index].row;
    const auto among = std::ranges::find(indices, index) - indices.begin();
    return row_count_ + static_cast<std::uint32_t>(among);
  };
  std::vector<GrowthNode> nodes;
  for (const std::uint32_t index : indices) {
    const Candidate& c = candidates_[index];
    GrowthNode node{.id = index + 1, .token = c.token, .depth = c.depth, .ancestors = {}};
    for (std::uint32_t above = c.parent; above > 0; above = candidates_[above - 1].parent) {
      node.ancestors.set(row_of(above - 1));
    }
    nodes.push_back(node);
  }
  return nodes;
}

std::vector<std::uint32_t> TreeGrowth::without_row(std::span<const std::uint32_t> indices) const {
  std::vector<std::uint32_t> missing;
  for (const std::uint32_t index : indices) {
    for (std::uint32_t above = candidates_[index].parent; above > 0;
         above = candidates_[above - 1].parent) {
      if (candidates_[above - 1].row == kNoRow) missing.push_back(above - 1);
    }
  }
  // Parents are older than their children.
  std::ranges::sort(missing);
  missing.erase(std::unique(missing.begin(), missing.end()), missing.end());
  return missing;
}

GrowthLevel TreeGrowth::next(std::uint32_t count_max) const {
  if (finished_ || depth_max() == 0 || count_max == 0) return {};
  if (!root_expanded_) return {.nodes = std::vector<GrowthNode>(1)};
  std::vector<std::uint32_t> next = open();
  std::vector<std::uint32_t> missing = without_row(next);
  const bool children = missing.empty();
  if (!children) next = std::move(missing);
  // Recomputing rows is cheap beside a productive step, so all missing rows go at once.
  const std::uint32_t rows_left = kMaskRowsMax - row_count_;
  next.resize(
      std::min<std::size_t>(next.size(), children ? std::min(count_max, rows_left) : rows_left));
  return {.nodes = nodes(next), .children = children};
}

void TreeGrowth::answer(const GrowthLevel& level, std::span<const std::uint32_t> tokens,
                        std::span<const float> log_probs) {
  EDGEDRAFT_CHECK(!level.empty() && tokens.size() == log_probs.size());
  EDGEDRAFT_CHECK(tokens.size() % level.nodes.size() == 0);
  const std::size_t children = tokens.size() / level.nodes.size();
  EDGEDRAFT_CHECK(level.children || children == 0);
  if (level.children) expanded_count_ += level.nodes.size();
  for (std::size_t i = 0; i < level.nodes.size(); ++i) {
    const std::uint32_t id = level.nodes[i].id;
    if (id == 0) {
      root_expanded_ = true;
    } else {
      Candidate& c = candidates_[id - 1];
      EDGEDRAFT_CHECK(c.row == kNoRow && row_count_ < kMaskRowsMax);
      c.row = row_count_++;
      c.expanded = true;
    }
    const std::uint32_t level_before = level_;
    const auto found = tokens.subspan(i * children, children);
    const auto found_log_probs = log_probs.subspan(i * children, children);
    if (choice_) {
      add_chosen(id, found, found_log_probs);
    } else {
      for (std::size_t child = 0; child < children; ++child) {
        add(found[child], id, found_log_probs[child]);
      }
    }
    // The levels below the expanded one have not changed.
    level_ = std::max(level_before, level.nodes[i].depth);
  }
}

void TreeGrowth::add_chosen(std::uint32_t parent, std::span<const std::uint32_t> tokens,
                            std::span<const float> log_probs) {
  std::vector<DraftGuess> guesses;
  for (std::size_t i = 0; i < tokens.size(); ++i) {
    guesses.push_back({.token = tokens[i], .log_prob = log_probs[i]});
  }
  choice_(path_to(parent), guesses);
  if (guesses.size() > shape_.breadth) guesses.resize(shape_.breadth);
  for (const DraftGuess& guess : guesses) add(guess.token, parent, guess.log_prob);
}

std::vector<std::uint32_t> TreeGrowth::path_to(std::uint32_t id) const {
  std::vector<std::uint32_t> path;
  for (; id != 0; id = candidates_[id - 1].parent) path.push_back(candidates_[id - 1].token);
  std::ranges::reverse(path);
  return path;
}

std::uint32_t TreeGrowth::add(std::uint32_t token, std::uint32_t parent, float log_prob) {
  EDGEDRAFT_CHECK(parent <= candidates_.size());
  const Score above = parent == 0 ? 0.0f : candidates_[parent - 1].score;
  const std::uint32_t depth = parent == 0 ? 1 : candidates_[parent - 1].depth + 1;
  candidates_.push_back(
      {{.token = token, .parent = parent, .score = score_below(above, log_prob)}, depth, log_prob});
  level_ = 1;
  return candidate_count();
}

void TreeGrowth::add(const DraftTree& tree) {
  std::vector<std::uint32_t> id_of(tree.row_count(), 0);
  for (std::uint32_t row = 1; row < tree.row_count(); ++row) {
    const std::uint32_t parent = tree.parent(row);
    id_of[row] =
        add(tree.token(row), id_of[parent], relative_score(tree.score(row), tree.score(parent)));
    candidates_[id_of[row] - 1].is_whole = true;
  }
}

DraftTree TreeGrowth::tree(std::uint32_t nodes) const {
  std::vector<std::uint32_t> kept;
  for (std::uint32_t i = 0; i < candidates_.size(); ++i) {
    if (candidates_[i].depth <= (candidates_[i].is_whole ? shape_.copied_depth() : depth_max()))
      kept.push_back(i);
  }
  keep_best(kept, std::min(nodes, kTreeNodesMax), candidates_);
  return tree_of(candidates_, kept);
}

std::vector<TreeGrowth::Rank> TreeGrowth::ranks_along(std::span<const std::uint32_t> tokens) const {
  std::vector<Rank> ranks;
  std::uint32_t above = 0;
  for (const std::uint32_t token : tokens) {
    const auto is_child = [&](const Candidate& c) { return c.parent == above; };
    const auto children = static_cast<std::uint32_t>(std::ranges::count_if(candidates_, is_child));
    if (children == 0) break;
    const auto child = std::ranges::find_if(
        candidates_, [&](const Candidate& c) { return is_child(c) && c.token == token; });
    if (child == candidates_.end()) {
      ranks.push_back({.rank = kNoRank, .of = children});
      break;
    }
    const auto likelier = [&](const Candidate& c) {
      return is_child(c) && c.log_prob > child->log_prob;
    };
    ranks.push_back(
        {.rank = static_cast<std::uint32_t>(std::ranges::count_if(candidates_, likelier)),
         .of = children});
    above = static_cast<std::uint32_t>(child - candidates_.begin()) + 1;
  }
  return ranks;
}

void TreeGrowth::reroot(std::span<const std::uint32_t> tokens) {
  std::uint32_t root = 0;
  for (const std::uint32_t token : tokens) {
    const auto found =
        std::find_if(candidates_.begin() + root, candidates_.end(),
                     [&](const Candidate& c) { return c.parent == root && c.token == token; });
    if (found == candidates_.end()) return clear();
    root = static_cast<std::uint32_t>(found - candidates_.begin()) + 1;
  }
  finished_ = false;
  level_ = 1;
  bind_rows(nullptr);
  if (root == 0) return;

  root_expanded_ = candidates_[root - 1].expanded;
  const std::vector<Candidate> old = std::exchange(candidates_, {});
  std::vector<std::uint32_t> new_id(old.size() + 1, kOutside);
  new_id[root] = 0;
  for (std::uint32_t id = root + 1; id <= old.size(); ++id) {
    const Candidate& c = old[id - 1];
    if (new_id[c.parent] == kOutside) continue;
    new_id[id] = add(c.token, new_id[c.parent], c.log_prob);
    candidates_.back().expanded = c.expanded;
  }
}

void TreeGrowth::clear() {
  candidates_.clear();
  root_expanded_ = false;
  finished_ = false;
  level_ = 1;
  bind_rows(nullptr);
}

void TreeGrowth::bind_rows(std::shared_ptr<const void> owner) {
  if (!is_bound_to(owner)) forget_rows();
  rows_owner_ = std::move(owner);
}

void TreeGrowth::forget_rows() {
  for (Candidate& c : candidates_) c.row = kNoRow;
  row_count_ = 0;
}

}  // namespace edgedraft
