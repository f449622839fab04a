#include "tests/bench/answer_walk.h"

#include <algorithm>
#include <chrono>
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

// For each root with the lag, whether the likeliest proposal is right; and the time of these trees.
struct Walk {
  std::vector<bool> hits;
  Duration drafting{};
};

// Walks along the answer with activations that are `lag` tokens old.
Walk walk(Drafter& drafter, const WalkedAnswer& answer, std::uint32_t lag, const TreeShape& shape,
          const std::function<Instant()>& now) {
  Walk walk;
  const std::size_t cols = drafter.activation_cols();
  std::uint32_t rows_end = 0;
  for (std::uint32_t root = answer.prompt_count; root + 1 < answer.tokens.size(); ++root) {
    const Instant began = now();
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
    const DraftTree tree = drafter.draft(shape);
    if (!walk.hits.empty()) walk.drafting += now() - began;
    walk.hits.push_back(is_likeliest(tree, answer.tokens[root + 1]));
  }
  return walk;
}

void count_lag(const Walk& walk, const std::vector<bool>& without, Lag& lag) {
  for (const bool hit : walk.hits) lag.with.add(hit);
  for (std::size_t i = without.size() - walk.hits.size(); i < without.size(); ++i) {
    lag.without.add(without[i]);
  }
  lag.drafting += walk.drafting;
  lag.cycles += walk.hits.empty() ? 0 : walk.hits.size() - 1;
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

std::optional<double> Lag::milliseconds_per_cycle() const {
  if (cycles == 0) return {};
  return std::chrono::duration<double, std::milli>(drafting).count() / static_cast<double>(cycles);
}

void count_lags(const std::function<std::unique_ptr<Drafter>()>& make_drafter,
                const WalkedAnswer& answer, std::span<const std::uint32_t> lags,
                const TreeShape& shape, const std::function<Instant()>& now, LagCounts& counts) {
  const Walk without = walk(*make_drafter(), answer, 0, shape, now);
  count_lag(without, without.hits, counts[0]);
  for (const std::uint32_t lag : lags) {
    if (lag == 0 || answer.rows.empty()) continue;
    count_lag(walk(*make_drafter(), answer, lag, shape, now), without.hits, counts[lag]);
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
