#include "server/passes/run.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <map>
#include <numeric>

#include "shared/speculative/score.h"

namespace edgedraft::server {
namespace {

// Weight of the newest sample in smoothed times.
constexpr double kNewest = 0.3;

Duration smoothed(const std::optional<Duration>& before, Duration sample) {
  if (!before) return sample;
  return std::chrono::duration_cast<Duration>(kNewest * sample + (1.0 - kNewest) * *before);
}

}  // namespace

Run::Run(const wire::RunTerms& terms, std::span<const std::uint32_t> tokens,
         std::uint32_t vocabulary_count)
    : terms_(terms),
      hints_(tokens, {.nodes_max = kHintNodesMax, .vocabulary_count = vocabulary_count}),
      vocabulary_count_(vocabulary_count) {}

void Run::take(const wire::Hints& hints, Instant posted) {
  terms_.credit = std::max(terms_.credit, hints.credit);
  if (in_lockstep()) {
    if (hints.complete) complete_ = hints.nodes;
    return;
  }
  terms_.hold = hints.hold;
  const bool had_hints = has_hints();
  const std::uint64_t taken_before = hints_.counts().taken;
  const std::vector<ScoreSteps> added = hints_.add(hints);
  if (!added.empty()) ranked_.reset();
  if (hints_.counts().taken == taken_before) return;
  passes_without_hints_ = 0;
  last_worth_ = 0.0;
  for (const ScoreSteps score : added) last_worth_ += calibration_.probability(score);
  if (had_hints) {
    // The expected hints may have come without a message of their own.
    if (last_message_) message_gap_ = smoothed(message_gap_, posted - *last_message_);
  } else if (emptied_) {
    hint_delay_ = smoothed(hint_delay_, std::max(posted - *emptied_, Duration::zero()));
    first_worth_.add(last_worth_);
    emptied_.reset();
  }
  last_message_ = posted;
}

void Run::advance(std::span<const std::uint32_t> tokens, Instant now) {
  complete_.reset();
  const bool had_hints = has_hints();
  told_ = now;
  if (hinted_count() > 0) accepted_.add(static_cast<double>(tokens.size()) - 1.0);
  guesses_ = {};
  hints_.advance(tokens);
  ranked_.reset();
  if (has_hints()) return;
  if (had_hints) emptied_ = now;
  ++passes_without_hints_;
}

std::optional<ExpectedHints> Run::next_hints(Instant now) const {
  if (is_hintless()) return std::nullopt;
  // Hints later than this multiple of the usual gap are not awaited.
  constexpr double kLate = 2.0;
  // Expected gain of a drafting step relative to the previous one.
  constexpr double kNextStep = 0.8;
  const auto by = [&](Instant since, Duration usual) {
    return since + std::chrono::duration_cast<Duration>(kLate * usual);
  };
  const auto expect = [&](Instant at, double tokens) -> std::optional<ExpectedHints> {
    if (at <= now) return std::nullopt;
    // Gain is capped by what passes were seen to accept; other hints compete for the rest.
    return ExpectedHints{
        .at = at, .tokens = std::min(tokens, accepted_.value()), .a_pass = accepted_.value()};
  };
  if (has_hints() && message_gap_) {
    const auto next = expect(by(*last_message_, *message_gap_), kNextStep * last_worth_);
    if (next) return next;
  }
  // A device with nothing left to draft resumes when it receives the last verdict.
  if (!hint_delay_ || !first_worth_.known()) return std::nullopt;
  return expect(by(told_, *hint_delay_),
                has_hints() ? kNextStep * last_worth_ : first_worth_.value());
}

const Run::Ranked& Run::ranked() {
  if (!ranked_) ranked_ = rank();
  return *ranked_;
}

Run::Ranked Run::rank() const {
  std::vector<Node> nodes;
  std::map<std::pair<std::uint32_t, std::uint32_t>, std::uint32_t> known;  // (parent, token)
  // Nodes of both sources merge if their paths are equal.
  const auto add = [&](const DraftTree& tree, const HintCalibration& calibration,
                       std::optional<ScoreSteps> Node::*score) {
    std::vector<std::uint32_t> index_of(tree.row_count(), 0);  // + 1
    for (std::uint32_t row = 1; row < tree.row_count(); ++row) {
      const std::uint32_t parent = index_of[tree.parent(row)];
      const auto next = static_cast<std::uint32_t>(nodes.size() + 1);
      // Hints contain no path twice.
      const std::uint32_t place =
          guesses_.empty() ? next
                           : known.try_emplace({parent, tree.token(row)}, next).first->second;
      index_of[row] = place;
      if (place == next) {
        nodes.push_back({.token = tree.token(row), .parent = parent, .probability = 0.0});
      }
      Node& node = nodes[place - 1];
      node.*score = to_steps(tree.score(row));
      const double above = parent == 0 ? 1.0 : nodes[parent - 1].probability;
      node.probability =
          std::max(node.probability, std::min(above, calibration.probability(*(node.*score))));
    }
  };
  add(hints_.best(kTreeNodesMax), calibration_, &Node::hint);
  add(guesses_, guess_calibration_, &Node::guess);

  std::vector<std::uint32_t> order(nodes.size());
  std::iota(order.begin(), order.end(), 0u);
  std::ranges::stable_sort(order, std::greater<>(),
                           [&](std::uint32_t i) { return nodes[i].probability; });
  constexpr std::uint32_t kLeftOut = ~0u;
  std::vector<std::uint32_t> index_of(nodes.size() + 1, 0);
  Ranked result;
  double claim = kClaimMax - overclaimed_;
  for (const std::uint32_t i : order) {
    if (!nodes[i].guess) claim -= nodes[i].probability;
    if (index_of[nodes[i].parent] == kLeftOut || (claim < 0.0 && !nodes[i].guess)) {
      index_of[i + 1] = kLeftOut;
      continue;
    }
    result.nodes.push_back(nodes[i]);
    result.nodes.back().parent = index_of[nodes[i].parent];
    result.probabilities.push_back(nodes[i].probability);
    index_of[i + 1] = static_cast<std::uint32_t>(result.nodes.size());
  }
  return result;
}

const DraftTree& Run::choose(std::uint32_t count, std::uint32_t length) {
  chosen_ = {};
  chosen_nodes_.clear();
  hints_seen_ = hints_.last_id();
  if (count == 0) return chosen_;
  const std::vector<Node>& nodes = ranked().nodes;
  const std::size_t most = std::min<std::size_t>({count, nodes.size(), kTreeNodesMax});
  std::vector<std::uint32_t> row_of(most + 1, 0);
  std::vector<std::uint32_t> depth_of(most + 1, 0);
  for (std::size_t i = 0; i < most; ++i) {
    const Node& node = nodes[i];
    depth_of[i + 1] = depth_of[node.parent] + 1;
    if (depth_of[i + 1] > depth_max(length)) continue;
    row_of[i + 1] = chosen_.add(node.token, row_of[node.parent],
                                static_cast<Score>(std::log(node.probability)));
    chosen_nodes_.push_back(node);
  }
  return chosen_;
}

const DraftTree& Run::choose_complete(std::uint32_t length) {
  chosen_ = tree_of(*complete_, depth_max(length), vocabulary_count_);
  chosen_nodes_.clear();
  for (const auto& [token, parent, score] : chosen_.nodes()) {
    chosen_nodes_.push_back(
        {.token = token, .parent = parent, .hint = ScoreSteps{}, .probability = 1.0});
  }
  return chosen_;
}

void Run::observe(std::span<const std::uint32_t> path) {
  overclaimed_ -= kClaimPerToken * static_cast<double>(path.size() + 1);
  for (std::uint32_t row = 1; row <= chosen_.node_count(); ++row) {
    const bool accepted = std::ranges::find(path, row) != path.end();
    const Node& node = chosen_nodes_[row - 1];
    if (node.hint) calibration_.observe(*node.hint, accepted);
    if (node.hint && !node.guess) overclaimed_ += node.probability - (accepted ? 1.0 : 0.0);
    if (node.guess) guess_calibration_.observe(*node.guess, accepted);
  }
  overclaimed_ = std::clamp(overclaimed_, 0.0, kClaimMax);
  ranked_.reset();
}

std::uint32_t Run::hinted_count() const {
  return static_cast<std::uint32_t>(
      std::ranges::count_if(chosen_nodes_, [](const Node& node) { return node.hint.has_value(); }));
}

std::uint32_t Run::guessed_count(std::span<const std::uint32_t> path) const {
  return static_cast<std::uint32_t>(
      std::ranges::count_if(path, [&](std::uint32_t row) { return !chosen_nodes_[row - 1].hint; }));
}

}  // namespace edgedraft::server
