#include "shared/drafting/predicted_drafter.h"

#include <algorithm>
#include <cmath>
#include <cstddef>

#include "shared/base/check.h"
#include "shared/speculative/tree_operations.h"

namespace edgedraft {
namespace {

// Length of the run that a prediction counts as before the answer begins.
constexpr std::uint32_t kTrusted = 8;
// Longest run that is compared, and tokens of an edit that are looked over.
constexpr std::uint32_t kRunMax = 32;
constexpr std::uint32_t kEditMax = 4;
// Shorter runs do not locate the place where an edited text continues.
constexpr std::uint32_t kRunMin = 2;

Score after_run(std::uint32_t run) {
  return std::log(static_cast<Score>(run + 1) / static_cast<Score>(run + 2));
}

struct Place {
  std::size_t at;     // in the prediction: the token that comes next
  std::uint32_t run;  // tokens before it that are the answer's last
};

// The longest run, of at most kRunMax tokens, that ends `answer`; the nearest to the answer's own
// length of equal ones. An empty answer continues at the start.
Place place_after(std::span<const std::uint32_t> prediction,
                  std::span<const std::uint32_t> answer) {
  if (answer.empty()) return {.at = 0, .run = kTrusted};
  const auto distance = [&](std::size_t at) {
    return at > answer.size() ? at - answer.size() : answer.size() - at;
  };
  Place best{.at = 0, .run = 0};
  for (std::size_t at = 1; at <= prediction.size(); ++at) {
    const auto most =
        static_cast<std::uint32_t>(std::min<std::size_t>({kRunMax, at, answer.size()}));
    std::uint32_t run = 0;
    while (run < most && prediction[at - 1 - run] == answer[answer.size() - 1 - run]) ++run;
    if (run > best.run || (run > 0 && run == best.run && distance(at) < distance(best.at))) {
      best = {.at = at, .run = run};
    }
  }
  // All of the answer so far.
  if (best.run == answer.size() && best.at == best.run) best.run += kTrusted;
  return best;
}

// Adds the prediction's tokens from a place on below the root.
void add_run(std::span<const std::uint32_t> prediction, const Place& place, Score score,
             const TreeShape& shape, DraftTree& tree) {
  std::uint32_t row = 0;
  std::uint32_t run = place.run;
  const std::size_t end = std::min<std::size_t>(prediction.size(), place.at + shape.copied_depth());
  for (std::size_t at = place.at; at < end && tree.node_count() < shape.nodes; ++at) {
    score += after_run(run++);
    const std::uint32_t known = tree.child(row, prediction[at]);
    row = known != 0 ? known : tree.add(prediction[at], row, std::min(score, tree.score(row)));
  }
}

// The nodes below `root`.
DraftTree subtree(const DraftTree& tree, std::uint32_t root) {
  DraftTree below;
  std::vector<std::uint32_t> row_of(tree.row_count(), 0);
  for (std::uint32_t row = root + 1; row < tree.row_count(); ++row) {
    const std::uint32_t parent = tree.parent(row);
    if (parent != root && row_of[parent] == 0) continue;
    row_of[row] = below.add(tree.token(row), row_of[parent],
                            relative_score(tree.score(row), tree.score(root)));
  }
  return below;
}

// The nodes of `tree` for which `keeps(row, whether `known` has the same path)` is true, as far as
// their ancestors are kept.
template <class Keeps>
DraftTree select(const DraftTree& tree, const DraftTree& known, const Keeps& keeps) {
  DraftTree kept;
  std::vector<std::uint32_t> row_of(tree.row_count(), 0);
  std::vector<std::uint32_t> known_row(tree.row_count(), 0);
  for (std::uint32_t row = 1; row < tree.row_count(); ++row) {
    const std::uint32_t parent = tree.parent(row);
    if (parent != 0 && row_of[parent] == 0) continue;
    if (parent == 0 || known_row[parent] != 0) {
      known_row[row] = known.child(known_row[parent], tree.token(row));
    }
    if (!keeps(row, known_row[row] != 0)) continue;
    row_of[row] = kept.add(tree.token(row), row_of[parent], tree.score(row));
  }
  return kept;
}

}  // namespace

DraftTree prediction_tree(std::span<const std::uint32_t> prediction,
                          std::span<const std::uint32_t> answer, const TreeShape& shape) {
  DraftTree tree;
  const Place here = place_after(prediction, answer);
  if (here.run >= kRunMin) {
    add_run(prediction, here, 0.0f, shape, tree);
    return tree;
  }
  // Within an edit. Replaced tokens are the likeliest, then inserted ones, then dropped ones.
  for (std::uint32_t edited = 1; edited <= std::min<std::size_t>(kEditMax, answer.size());
       ++edited) {
    const Place before = place_after(prediction, answer.first(answer.size() - edited));
    if (before.run < kRunMin) continue;
    std::uint32_t branches = 0;
    for (const std::size_t skipped :
         {std::size_t{edited}, std::size_t{0}, std::size_t{edited} + 1}) {
      if (branches == shape.breadth) break;
      const Place place{.at = before.at + skipped, .run = 0};
      if (place.at >= prediction.size()) continue;
      add_run(prediction, place, static_cast<Score>(branches) * after_run(0), shape, tree);
      ++branches;
    }
    break;
  }
  if (tree.node_count() == 0 && here.run > 0) add_run(prediction, here, 0.0f, shape, tree);
  return tree;
}

// The prediction as a drafter of its own.
class PredictedDrafter::Follower final : public Drafter {
 public:
  std::uint32_t token_count() const override { return count_; }
  void append(std::span<const std::uint32_t> tokens) override {
    count_ += static_cast<std::uint32_t>(tokens.size());
    if (!follows()) return;
    for (const std::uint32_t token : tokens) take(token);
  }
  void truncate(std::uint32_t count) override {
    EDGEDRAFT_CHECK(count <= count_);
    if (count == count_) return;
    count_ = count;
    // An answer that is cut before its start was another request's.
    if (count < first_) return predict({});
    if (!follows()) return;
    answer_.resize(count - first_);
    undecided_ = {};
  }
  void predict(std::vector<std::uint32_t> answer) override {
    prediction_ = std::move(answer);
    answer_.clear();
    first_ = count_;
    allowance_ = {};
    counts_ = {};
    undecided_ = {};
  }
  PredictionCounts prediction_counts() const override { return counts_; }
  bool follows() const { return !prediction_.empty(); }
  bool grow(TreeGrowth& growth, const GrowthBudget& /*budget*/) override {
    offered_ = affordable(prediction_tree(prediction_, answer_, growth.shape()));
    growth.clear();
    growth.add(offered_);
    growth.finish();
    return true;
  }
  // Counts the offered rows that are in `merged`, the tree of all drafters, and pays for new ones.
  void propose(const DraftTree& merged, Score floor);
  std::span<const float> next_logits() override { return {}; }

 private:
  void take(std::uint32_t token);
  DraftTree affordable(const DraftTree& tree) const;

  std::uint32_t count_ = 0;
  std::uint32_t first_ = 0;  // tokens before the answer
  std::vector<std::uint32_t> prediction_;
  std::vector<std::uint32_t> answer_;
  PredictionAllowance allowance_;
  PredictionCounts counts_;
  DraftTree undecided_;  // rows that were proposed below the answer's last token
  DraftTree offered_;    // rows of the last grow()
};

void PredictedDrafter::Follower::take(std::uint32_t token) {
  const std::uint32_t row = undecided_.child(0, token);
  const Place place = place_after(prediction_, answer_);
  const bool foretold =
      place.run >= kRunMin && place.at < prediction_.size() && prediction_[place.at] == token;
  if (row != 0) {
    ++counts_.accepted;
    allowance_.accept();
  }
  if (row != 0 || foretold) allowance_.foretell();
  undecided_ = row != 0 ? subtree(undecided_, row) : DraftTree();
  answer_.push_back(token);
}

DraftTree PredictedDrafter::Follower::affordable(const DraftTree& tree) const {
  std::uint32_t left = allowance_.rows();
  return select(tree, undecided_, [&](std::uint32_t /*row*/, bool is_known) {
    if (is_known) return true;
    if (left == 0) return false;
    --left;
    return true;
  });
}

void PredictedDrafter::Follower::propose(const DraftTree& merged, Score floor) {
  std::uint32_t fresh = 0;
  std::vector<std::uint32_t> place(offered_.row_count(), 0);
  const DraftTree proposed = select(offered_, undecided_, [&](std::uint32_t row, bool is_known) {
    place[row] = merged.child(place[offered_.parent(row)], offered_.token(row));
    if (place[row] == 0 || merged.score(place[row]) < floor) return false;
    fresh += !is_known;
    return true;
  });
  counts_.proposed += fresh;
  allowance_.propose(fresh);
  undecided_ = merge(undecided_, proposed, kTreeNodesMax);
}

namespace {

std::vector<std::unique_ptr<Drafter>> both(std::unique_ptr<Drafter> first,
                                           std::unique_ptr<Drafter> second) {
  std::vector<std::unique_ptr<Drafter>> both;
  both.push_back(std::move(first));
  both.push_back(std::move(second));
  return both;
}

}  // namespace

PredictedDrafter::PredictedDrafter(std::unique_ptr<Drafter> drafter)
    : PredictedDrafter(std::move(drafter), std::make_unique<Follower>()) {}

PredictedDrafter::PredictedDrafter(std::unique_ptr<Drafter> drafter,
                                   std::unique_ptr<Follower> follower)
    : drafter_(*drafter),
      follower_(*follower),
      merged_(both(std::move(drafter), std::move(follower))) {}

void PredictedDrafter::predict(std::vector<std::uint32_t> answer) {
  follower_.predict(std::move(answer));
}

PredictionCounts PredictedDrafter::prediction_counts() const {
  return follower_.prediction_counts();
}

bool PredictedDrafter::grow(TreeGrowth& growth, const GrowthBudget& budget) {
  if (!follower_.follows()) return drafter_.grow(growth, budget);
  const bool done = merged_.grow(growth, budget);
  follower_.propose(growth.tree(), growth.floor());
  return done;
}

}  // namespace edgedraft
