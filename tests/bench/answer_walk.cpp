#include "tests/bench/answer_walk.h"

#include <algorithm>
#include <cmath>
#include <cstdio>
#include <functional>
#include <utility>

#include "shared/protocol/activation_codec.h"
#include "shared/speculative/sampling.h"

namespace edgedraft::bench {
namespace {

constexpr std::uint32_t kNoRank = ~0u;

// The rows of a tree that hold what follows the root in the answer, down to the first that is not
// there.
std::vector<std::uint32_t> path_in(const DraftTree& tree, std::span<const std::uint32_t> follows) {
  std::vector<std::uint32_t> path;
  std::uint32_t row = 0;
  for (const std::uint32_t token : follows) {
    row = tree.child(row, token);
    if (row == 0) break;
    path.push_back(row);
  }
  return path;
}

// The place of `right` among the root's children, the likeliest first; kNoRank if it is none.
std::uint32_t rank_in(const DraftTree& tree, std::uint32_t right) {
  std::vector<std::uint32_t> children;
  for (std::uint32_t row = 1; row <= tree.node_count(); ++row) {
    if (tree.parent(row) == 0) children.push_back(row);
  }
  std::ranges::stable_sort(children, std::greater<>(),
                           [&](std::uint32_t row) { return tree.score(row); });
  const auto found =
      std::ranges::find(children, right, [&](std::uint32_t row) { return tree.token(row); });
  return found == children.end() ? kNoRank : static_cast<std::uint32_t>(found - children.begin());
}

void count_tree(const DraftTree& tree, std::span<const std::uint32_t> follows,
                std::uint32_t depth_max, LagCounts& counts) {
  const std::vector<std::uint32_t> path = path_in(tree, follows);
  counts.by_depth.resize(depth_max);
  for (std::size_t depth = 0; depth < std::min<std::size_t>(path.size() + 1, depth_max); ++depth) {
    if (depth < follows.size()) counts.by_depth[depth].add(depth < path.size());
  }
  const auto depths = tree.depths();
  for (std::uint32_t row = 1; row <= tree.node_count(); ++row) {
    if (depths[row] > follows.size()) continue;  // the answer ends before
    const double probability = std::exp(static_cast<double>(tree.score(row)));
    const auto bin = std::min(static_cast<std::uint32_t>(probability * kScoreBins), kScoreBins - 1);
    counts.by_score[bin].expected += probability;
    counts.by_score[bin].on_path.add(std::ranges::find(path, row) != path.end());
  }
}

// Walks along the answer with activations that are `lag` tokens old. Returns the rank of the right
// proposal for each root that has such a lag.
std::vector<std::uint32_t> walk(Drafter& drafter, const WalkedAnswer& answer, std::uint32_t lag,
                                const TreeShape& shape, LagCounts& counts) {
  std::vector<std::uint32_t> ranks;
  const std::size_t cols = drafter.activation_cols();
  std::uint32_t rows_end = 0;
  for (std::uint32_t root = answer.prompt_count; root + 1 < answer.tokens.size(); ++root) {
    const std::uint32_t known = drafter.token_count();
    drafter.append(std::span(answer.tokens).subspan(known, root + 1 - known));
    const std::uint32_t in_answer = root - answer.prompt_count;
    const std::uint32_t end = root - std::min(lag, in_answer);
    if (cols > 0 && end > rows_end) {
      drafter.add_activations(
          rows_end, std::span(answer.rows).subspan(rows_end * cols, (end - rows_end) * cols));
      rows_end = end;
    }
    if (in_answer < lag) continue;
    const auto follows = std::span<const std::uint32_t>(answer.tokens).subspan(root + 1);
    if (lag > 0) {
      // One level tells the ranks.
      const DraftTree level = drafter.draft(
          {.breadth = shape.breadth, .depth = 1, .nodes = std::min(shape.breadth, shape.nodes)});
      ranks.push_back(rank_in(level, follows[0]));
    } else {
      const DraftTree tree = drafter.draft(shape);
      ranks.push_back(rank_in(tree, follows[0]));
      count_tree(tree, follows, shape.depth, counts);
    }
  }
  return ranks;
}

void count_lag(std::span<const std::uint32_t> ranks, std::span<const std::uint32_t> without,
               Lag& lag) {
  for (const std::uint32_t rank : ranks) {
    for (std::size_t i = 0; i < kRanks.size(); ++i) lag.among[i].add(rank < kRanks[i]);
  }
  for (const std::uint32_t rank : without.last(ranks.size())) lag.without.add(rank == 0);
}

}  // namespace

std::string share_text(const std::optional<double>& share) {
  if (!share) return "-";
  char text[32];
  std::snprintf(text, sizeof text, "%.3f", *share);
  return text;
}

nlohmann::ordered_json share_json(const std::optional<double>& share) {
  return share ? nlohmann::ordered_json(*share) : nlohmann::ordered_json();
}

Result<TargetSession> answer_plainly(ModelHost& host, const std::vector<std::uint32_t>& prompt,
                                     const SamplingParams& sampling, std::uint32_t tokens_max) {
  TargetSession session(host.decoder(), host.context_count(),
                        [&host](std::uint32_t t) { return host.tokenizer().is_end(t); });
  const auto first = session.prefill({.base_count = 0, .tokens = prompt, .sampling = sampling});
  if (!first) return first.error();
  Finish finish = first->finish;
  while (finish == Finish::none && session.tokens().size() < prompt.size() + tokens_max) {
    const auto path = session.verify(DraftTree());
    if (!path) return path.error();
    finish = path->finish;
  }
  return session;
}

Result<WalkedAnswer> walked_answer(const TargetSession& session, std::uint32_t prompt_count,
                                   Tap* tap) {
  WalkedAnswer answer{.tokens = {session.tokens().begin(), session.tokens().end()},
                      .prompt_count = prompt_count,
                      .rows = {}};
  if (tap == nullptr) return answer;
  const auto groups = tap->scale_groups();
  const ActivationLayout layout({groups.begin(), groups.end()});
  const std::uint32_t count = session.valid_count();
  std::vector<float> rows(std::size_t{count} * layout.cols());
  tap->read(session.cache(), 0, count, rows);
  auto received = dequantize_rows(layout, count, quantize_rows(layout, rows));
  if (!received) return received.error();
  answer.rows = *std::move(received);
  return answer;
}

void count_lags(const std::function<std::unique_ptr<Drafter>()>& make_drafter,
                const WalkedAnswer& answer, std::span<const std::uint32_t> lags,
                const TreeShape& shape, LagCounts& counts) {
  const auto ranks_at = [&](std::uint32_t lag) {
    return walk(*make_drafter(), answer, lag, shape, counts);
  };
  const std::vector<std::uint32_t> without = ranks_at(0);
  count_lag(without, without, counts.by_lag[0]);
  for (const std::uint32_t lag : lags) {
    if (lag == 0 || answer.rows.empty()) continue;
    count_lag(ranks_at(lag), without, counts.by_lag[lag]);
  }
}

void count_written_alone(Drafter& drafter, const WalkedAnswer& answer, WrittenAlone& counts) {
  const auto all = static_cast<std::uint32_t>(answer.tokens.size());
  const std::uint32_t known = (answer.prompt_count + all) / 2;
  const std::span<const std::uint32_t> rest = std::span(answer.tokens).subspan(known);
  drafter.append(std::span(answer.tokens).first(known));
  const std::size_t cols = drafter.activation_cols();
  if (cols > 0) drafter.add_activations(0, std::span(answer.rows).first((known - 1) * cols));
  Share right;
  std::uint32_t before_difference = 0;
  for (const std::uint32_t token : rest) {
    const std::span<const float> logits = drafter.next_logits();
    if (logits.empty()) return;
    const std::uint32_t written = argmax(logits);
    if (right.hits == right.count && written == token) ++before_difference;
    right.add(written == token);
    drafter.append(std::span(&written, 1));
  }
  counts.right.hits += right.hits;
  counts.right.count += right.count;
  counts.before_difference.push_back(before_difference);
}

}  // namespace edgedraft::bench
