#include "shared/drafting/memory_need.h"

#include <algorithm>
#include <vector>

namespace edgedraft {
namespace {

// Exercises every use of a drafter once.
void use(Drafter& drafter, std::uint32_t positions, const TreeShape& tree) {
  const std::uint32_t depth = std::min(tree.depth, positions - 1);
  const std::uint32_t count = std::clamp(positions - depth, 1u, kMaskRowsMax + 1);
  drafter.append(std::vector<std::uint32_t>(count));
  const std::vector<float> rows(std::size_t{count - 1} * drafter.activation_cols());
  if (!rows.empty()) drafter.add_activations(0, rows);
  (void)drafter.next_logits();
  // A choice requests more guesses per node.
  (void)drafter.draft(tree, [](auto /*path*/, std::vector<DraftGuess>& /*guesses*/) {});
}

}  // namespace

MemoryNeed& MemoryNeed::operator+=(const MemoryNeed& other) {
  weights += other.weights;
  scratch += other.scratch;
  cache += other.cache;
  return *this;
}

MemoryNeed memory_need(const DrafterModel& model, Backend& backend, std::uint32_t positions,
                       const TreeShape& tree) {
  const MemoryMeter& meter = *backend.meter();
  const auto weights = model.load(backend, positions);
  const auto first = weights->make_drafter();
  use(*first, positions, tree);
  const std::uint64_t one = meter.held(MemoryMeter::Use::working);
  const auto second = weights->make_drafter();
  use(*second, positions, tree);
  const std::uint64_t two = meter.held(MemoryMeter::Use::working);
  const std::uint64_t cache = two - one;
  return {.weights = meter.held(MemoryMeter::Use::weights), .scratch = one - cache, .cache = cache};
}

}  // namespace edgedraft
