#include "client/generation/online/draft_ahead.h"

#include <algorithm>
#include <utility>

#include "shared/protocol/limits.h"
#include "shared/speculative/best_nodes.h"

namespace edgedraft::client {
namespace {

// Wide trees are shallower: all levels but the last are rows of the drafter's pass.
TreeShape shape_of(std::uint32_t breadth, std::uint32_t depth) {
  const std::uint32_t most = std::min(kTreeDepthMax, (kMaskRowsMax - 1) / breadth + 1);
  depth = std::clamp(depth, 1u, most);
  return {.breadth = breadth, .depth = depth, .nodes = kTreeNodesMax, .copied = depth};
}

}  // namespace

void SentHints::begin() {
  nodes_.assign(1, {});
  next_id_ = 1;
}

std::uint32_t SentHints::child(std::uint32_t parent, std::uint32_t token) const {
  for (auto i = parent + 1; i < nodes_.size(); ++i) {
    if (nodes_[i].parent == parent && nodes_[i].token == token) return i;
  }
  return kNone;
}

void SentHints::reroot(std::span<const std::uint32_t> tokens) {
  std::uint32_t root = 0;
  for (const std::uint32_t token : tokens) {
    root = child(root, token);
    if (root == kNone) {
      nodes_.assign(1, {});
      return;
    }
  }
  const std::vector<Node> old = std::exchange(nodes_, std::vector<Node>(1));
  const std::vector<std::uint32_t> new_index = indices_below(root, old);
  for (auto i = root + 1; i < old.size(); ++i) {
    if (new_index[i] == kOutside) continue;
    nodes_.push_back({.token = old[i].token, .parent = new_index[old[i].parent], .id = old[i].id});
  }
}

SentHints::Batch SentHints::take(const DraftTree& tree, Score floor) {
  Batch batch{.first = next_id_};
  std::vector<std::uint32_t> sent(tree.row_count(), kNone);
  for (std::uint32_t row = 1; row <= tree.node_count(); ++row) {
    // A child never scores more than its parent, so ancestors of sent nodes are sent as well.
    if (tree.score(row) < floor) continue;
    const std::uint32_t parent = sent[tree.parent(row)];
    if (parent == kNone && tree.parent(row) != 0) continue;
    sent[row] = child(parent, tree.token(row));
    if (sent[row] != kNone) continue;
    const std::uint32_t distance = parent == kNone ? 0 : next_id_ - nodes_[parent].id;
    if (distance > kHintDistanceMax) continue;
    sent[row] = static_cast<std::uint32_t>(nodes_.size());
    nodes_.push_back({.token = tree.token(row), .parent = parent, .id = next_id_++});
    // Computed from rounded sums, so that errors do not add up along a path.
    const ScoreSteps below = to_steps(tree.score(row)) - to_steps(tree.score(tree.parent(row)));
    batch.nodes.push_back({.token = tree.token(row),
                           .distance = static_cast<std::uint16_t>(distance),
                           .score = byte_of(below)});
  }
  return batch;
}

DraftAhead::DraftAhead(Drafter& drafter, const Options& options)
    : drafter_(drafter),
      options_(options),
      growth_(shape_of(options.breadth, kTreeDepthMax), GrowthOrder::best_first) {
  growth_.set_floor(options.floor);
}

void DraftAhead::set(const Options& options) {
  options_ = options;
  breadth_min_ = std::min(breadth_min_, options.breadth);  // covers existing nodes
  growth_.set_floor(options.floor);
  growth_.set_shape(shape_of(options.breadth, growth_.shape().depth));
}

void DraftAhead::begin() {
  growth_.clear();
  breadth_min_ = options_.breadth;
  sent_.begin();
  done_ = false;
  steps_ = 0;
  server_waits_ = true;
}

void DraftAhead::advance(std::span<const std::uint32_t> tokens, std::uint32_t depth_max) {
  growth_.reroot(tokens);
  sent_.reroot(tokens);
  server_waits_ = growth_.candidate_count() == 0;
  if (server_waits_) breadth_min_ = options_.breadth;  // no earlier nodes are left
  done_ = depth_max == 0;
  if (!done_) growth_.set_shape(shape_of(options_.breadth, depth_max));
}

std::uint32_t DraftAhead::step() {
  const std::uint64_t expanded_before = growth_.expanded_count();
  const std::uint32_t before = growth_.candidate_count();
  done_ = drafter_.grow(growth_, {.rows = options_.breadth});
  const std::uint32_t after = growth_.candidate_count();
  if (!done_ && after == 0) return 0;
  ++steps_;
  const auto expanded = static_cast<std::uint32_t>(growth_.expanded_count() - expanded_before);
  if (expanded > 0) return expanded;
  // Heads and tables add a whole tree at once: count as many steps as a network would have taken. A
  // drafter that cannot continue a tree after its root moved starts a new one.
  return std::max(1u, (after - std::min(before, after)) / options_.breadth);
}

SentHints::Batch DraftAhead::unsent() {
  if (steps_ == 0 || (steps_ < options_.steps && !server_waits_ && !done_)) return {};
  steps_ = 0;
  SentHints::Batch batch = sent_.take(growth_.tree(), options_.floor);
  server_waits_ = server_waits_ && batch.nodes.empty();
  return batch;
}

}  // namespace edgedraft::client
