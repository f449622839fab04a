#include "shared/drafting/medusa/medusa_drafter.h"

#include <algorithm>

#include "shared/base/check.h"

namespace edgedraft {

MedusaHeads::MedusaHeads(Backend& backend, const MedusaConfig& config, const MedusaTensors& tensors)
    : backend_(backend),
      config_(config),
      store_(backend),
      feature_(backend, 1, config.dim),
      inner_(backend, config.head_count, config.dim),
      twos_(backend, config.head_count, config.dim),
      pairs_(backend, 2 * config.head_count, config.dim),
      hidden_(backend, config.head_count, config.dim),
      logits_(backend, config.head_count, config.head_rows()) {
  EDGEDRAFT_CHECK(tensors.heads.size() == config.head_count);
  if (tensors.output) output_ = store_.add_matrix(*tensors.output);
  for (const MedusaTensors::Head& head : tensors.heads) {
    heads_.push_back({.weight = store_.add_matrix(head.weight),
                      .bias = store_.add_vector(head.bias),
                      .output = store_.add_matrix(head.output)});
  }
  const std::vector<float> twos(std::size_t{config.head_count} * config.dim, 2.0f);
  backend_.write(twos_.all(), twos);
}

Matrix MedusaHeads::logits(std::span<const float> feature, std::uint32_t first,
                           std::uint32_t count) {
  EDGEDRAFT_CHECK(feature.size() == config_.dim && count > 0 &&
                  first + count <= config_.head_count);
  // f + silu(...) as the mean of interleaved 2 f and 2 silu(...): doubling and halving are exact,
  // so no extra operation is needed.
  const auto every_second = [&](std::uint32_t offset) {
    Matrix rows = pairs_.rows(count);
    rows.offset += std::uint64_t{offset} * config_.dim;
    rows.stride = std::uint64_t{2} * config_.dim;
    return rows;
  };
  std::vector<float> doubled;
  for (std::uint32_t i = 0; i < count; ++i) {
    for (const float x : feature) doubled.push_back(2.0f * x);
  }
  backend_.write(every_second(0), doubled);
  backend_.write(feature_.all(), feature);
  const Matrix inner = inner_.rows(count);
  for (std::uint32_t i = 0; i < count; ++i) {
    const Head& head = heads_[first + i];
    backend_.matmul({.x = feature_.all(),
                     .weight = head.weight,
                     .bias = head.bias,
                     .y = inner.row_range(i, 1)});
  }
  backend_.gate({.gate = inner,
                 .up = twos_.rows(count),
                 .y = every_second(1),
                 .activation = Activation::silu});
  const Matrix hidden = hidden_.rows(count);
  backend_.group_mean({.x = pairs_.rows(2 * count), .group_rows = 2, .y = hidden});
  const Matrix logits = logits_.rows(count);
  if (output_) {
    backend_.matmul({.x = hidden, .weight = output_, .bias = {}, .y = logits});
    return logits;
  }
  for (std::uint32_t i = 0; i < count; ++i) {
    backend_.matmul({.x = hidden.row_range(i, 1),
                     .weight = heads_[first + i].output,
                     .bias = {},
                     .y = logits.row_range(i, 1)});
  }
  return logits;
}

void MedusaDrafter::add_activations(std::uint32_t first, std::span<const float> rows) {
  features_.add(first, rows, heads_->config().dim);
  forget_guesses();
}

void MedusaDrafter::drop_activations(std::uint32_t first) {
  if (features_.drop(first)) forget_guesses();
}

bool MedusaDrafter::add_fixed_tree(TreeGrowth& growth, const Guesses& guesses,
                                   std::uint32_t depth_max) {
  if (heads_->config().tree.empty()) return false;
  constexpr std::uint32_t kLeftOut = kTreeNodesMax + 1;
  struct Place {
    std::uint32_t id;
    std::uint32_t depth;
  };
  std::vector<Place> places{{.id = 0, .depth = 0}};
  for (const MedusaChoice& node : heads_->config().tree) {
    const Place parent = places[node.parent];
    Place place{.id = kLeftOut, .depth = parent.depth + 1};
    // Limits the tokens per node; a chain has one.
    const std::uint32_t breadth = std::min(growth.shape().breadth, guesses.per_level);
    if (parent.id != kLeftOut && place.depth <= depth_max && node.rank < breadth) {
      const std::size_t index = std::size_t{parent.depth} * guesses.per_level + node.rank;
      place.id = growth.add(guesses.tokens[index], parent.id, guesses.log_probs[index]);
    }
    places.push_back(place);
  }
  return true;
}

}  // namespace edgedraft
