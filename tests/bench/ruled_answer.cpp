#include "tests/bench/ruled_answer.h"

#include <algorithm>
#include <map>

#include "shared/base/random.h"
#include "shared/speculative/sampling.h"
#include "tests/bench/rules/candidate_rule.h"
#include "tests/bench/rules/drawn_draft.h"

namespace edgedraft::bench {

MeasuredAnswer ruled_answer(ModelHost& host, const RuledAnswerRequest& request) {
  Decoder& decoder = host.decoder();
  Drafter& drafter = request.drafter;
  KvCache cache = decoder.make_cache(request.kv_type);
  Sampler sampler(request.sampling);
  Random random(request.sampling.seed);
  const auto uniform = [&] { return random.uniform(); };
  const auto is_end = [&host](std::uint32_t t) { return host.tokenizer().is_end(t); };
  std::vector<float> logits(decoder.config().vocabulary_count);

  const std::uint32_t prompt_rows = decoder.append(cache, request.prompt);
  decoder.backend().read(decoder.logits(prompt_rows - 1, 1), logits);
  std::uint32_t root = sampler.choose(logits, request.prompt.size());
  drafter.append(request.prompt);
  drafter.append(std::span(&root, 1));
  std::uint32_t activations_end = 0;
  MeasuredAnswer answer{.tokens = {root}};
  Finish finish = is_end(root) ? Finish::end_token : Finish::none;
  while (finish == Finish::none && answer.tokens.size() < request.tokens_max) {
    const std::uint32_t length = cache.length();
    if (request.tap != nullptr) {
      std::vector<float> values((length - activations_end) * drafter.activation_cols());
      request.tap->read(cache, activations_end, length - activations_end, values);
      drafter.add_activations(activations_end, values);
      activations_end = length;
    }
    DrawnDraft drawn({.temperature = request.sampling.temperature,
                      .breadth = request.tree.breadth,
                      .uniform = uniform});
    TreeShape shape = request.tree;
    shape.limit(request.tokens_max - static_cast<std::uint32_t>(answer.tokens.size()) - 1);
    const DraftTree tree =
        shape.depth == 0 ? DraftTree()
        : request.typical
            ? drafter.draft(shape)
            : drafter.draft(shape, [&](auto path, auto& guesses) { drawn.draw(path, guesses); });

    std::vector<std::uint32_t> fed{root};
    for (const DraftNode& node : tree.nodes()) fed.push_back(node.token);
    std::vector<std::uint32_t> positions = tree.depths();
    for (std::uint32_t& position : positions) {
      position = std::min(length + position, host.context_count() - 1);
    }
    const auto masks = tree.masks();
    decoder.forward(
        cache, fed,
        {.positions = positions, .prefix = length, .first_slot = length, .masks = masks});
    const Matrix found = decoder.logits(0, tree.row_count());
    const auto draft_distribution = [&](std::uint32_t row) -> const SparseDistribution& {
      return drawn.distribution(tree, row);
    };
    std::map<std::uint32_t, DenseDistribution> targets;  // by row
    const auto target_behind = [&](std::uint32_t row) -> const DenseDistribution& {
      const auto [known, is_new] = targets.try_emplace(row);
      if (is_new) {
        decoder.backend().read(found.row_range(row, 1), logits);
        known->second = sampler.distribution(logits);
      }
      return known->second;
    };
    const VerifiedPath verified =
        request.typical ? verify_typical(tree, {.root_position = length,
                                                .context_count = host.context_count(),
                                                .threshold = *request.typical,
                                                .target = target_behind,
                                                .is_end = is_end})
                        : verify_candidates(tree, {.root_position = length,
                                                   .context_count = host.context_count(),
                                                   .target = target_behind,
                                                   .draft = draft_distribution,
                                                   .uniform = uniform,
                                                   .is_end = is_end});
    if (request.typical) {
      // The choice is deterministic, so a token of probability p adds 1 - p.
      std::uint32_t behind = 0;
      for (const std::uint32_t row : verified.path) {
        answer.total_variation += 1.0 - target_behind(behind)[tree.token(row)];
        behind = row;
      }
      answer.total_variation += 1.0 - target_behind(behind)[verified.next];
    }
    std::vector<std::uint32_t> slots{length};
    std::vector<std::uint32_t> brought;
    for (const std::uint32_t row : verified.path) {
      slots.push_back(length + row);
      brought.push_back(tree.token(row));
    }
    root = verified.next;
    brought.push_back(root);
    cache.keep(slots);
    drafter.append(brought);
    answer.tokens.insert(answer.tokens.end(), brought.begin(), brought.end());
    answer.cycle_tokens += static_cast<std::uint32_t>(brought.size());
    answer.rows += tree.row_count();
    ++answer.cycles;
    finish = verified.finish;
  }
  return answer;
}

}  // namespace edgedraft::bench
