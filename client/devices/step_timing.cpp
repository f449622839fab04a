#include "client/devices/step_timing.h"

#include <algorithm>
#include <array>
#include <utility>
#include <vector>

#include "shared/base/clock.h"
#include "shared/base/percentile.h"
#include "shared/base/random.h"

namespace edgedraft::client {
namespace {

constexpr std::uint32_t kPromptTokens = 64;
constexpr std::size_t kTriesMax = 50;
constexpr std::size_t kTriesMin = 5;
constexpr Duration kEnough = std::chrono::milliseconds(250);

}  // namespace

Result<StepTiming> time_drafting_step(const DrafterModel& model, Backend& backend,
                                      const TreeShape& tree) {
  const DrafterFacts& facts = model.facts();
  const std::uint32_t depth = std::min(tree.depth, std::max(facts.context_count / 2, 1u));
  const std::uint32_t positions = std::min(facts.context_count, kPromptTokens + depth);
  const auto drafter = model.load(backend, positions)->make_drafter();
  const std::uint32_t count = std::clamp(facts.context_count - depth, 2u, kPromptTokens);
  Random random(1);
  std::vector<std::uint32_t> tokens(count);
  for (auto& token : tokens)
    token = static_cast<std::uint32_t>(random.below(facts.vocabulary_count));
  // Rows of all positions but the last cycle's, as in a session.
  std::vector<float> rows(std::size_t{count - 1} * drafter->activation_cols());
  for (float& value : rows) value = static_cast<float>(2.0 * random.uniform() - 1.0);
  drafter->append(tokens);
  if (!rows.empty()) drafter->add_activations(0, rows);

  const TreeShape shape{.breadth = tree.breadth, .depth = depth, .nodes = tree.nodes};
  (void)drafter->draft(shape);
  std::vector<double> tries;
  const Instant start = Clock::now();
  while (tries.size() < kTriesMin || (tries.size() < kTriesMax && Clock::now() - start < kEnough)) {
    drafter->truncate(count - 1);
    drafter->append(std::array{tokens.back()});
    const Instant before = Clock::now();
    (void)drafter->draft(shape);
    tries.push_back(seconds(Clock::now() - before));
  }
  const double step = std::max(median(std::move(tries)), 1e-9) / depth;
  return StepTiming{.seconds = step,
                    .bytes_per_second = static_cast<double>(facts.step_bytes) / step};
}

}  // namespace edgedraft::client
