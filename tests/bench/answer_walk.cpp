#include "tests/bench/answer_walk.h"

#include <algorithm>
#include <cstdio>
#include <utility>

#include "shared/protocol/activation_codec.h"
#include "shared/speculative/sampling.h"

namespace edgedraft::bench {
namespace {

// True if the likeliest of the root's children is `right`.
bool is_likeliest(const DraftTree& tree, std::uint32_t right) {
  std::uint32_t likeliest = 0;
  for (std::uint32_t row = 1; row <= tree.node_count(); ++row) {
    if (tree.parent(row) != 0) continue;
    if (likeliest == 0 || tree.score(row) > tree.score(likeliest)) likeliest = row;
  }
  return likeliest != 0 && tree.token(likeliest) == right;
}

// Walks along the answer with activations that are `lag` tokens old. Returns, for each root with
// that lag, whether the likeliest proposal is right.
std::vector<bool> walk(Drafter& drafter, const WalkedAnswer& answer, std::uint32_t lag,
                       const TreeShape& shape) {
  const TreeShape level{
      .breadth = shape.breadth, .depth = 1, .nodes = std::min(shape.breadth, shape.nodes)};
  std::vector<bool> hits;
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
    hits.push_back(is_likeliest(drafter.draft(level), answer.tokens[root + 1]));
  }
  return hits;
}

void count_lag(const std::vector<bool>& hits, const std::vector<bool>& without, Lag& lag) {
  for (const bool hit : hits) lag.with.add(hit);
  for (std::size_t i = without.size() - hits.size(); i < without.size(); ++i) {
    lag.without.add(without[i]);
  }
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
  const std::vector<bool> without = walk(*make_drafter(), answer, 0, shape);
  count_lag(without, without, counts[0]);
  for (const std::uint32_t lag : lags) {
    if (lag == 0 || answer.rows.empty()) continue;
    count_lag(walk(*make_drafter(), answer, lag, shape), without, counts[lag]);
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
