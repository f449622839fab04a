#include "shared/drafting/medusa/medusa_drafter.h"

#include <algorithm>
#include <iterator>

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

void MedusaDrafter::append(std::span<const std::uint32_t> tokens) {
  if (tokens.empty()) return;
  token_count_ += static_cast<std::uint32_t>(tokens.size());
  forget_guesses();
}

void MedusaDrafter::truncate(std::uint32_t count) {
  EDGEDRAFT_CHECK(count <= token_count_);
  if (count < token_count_) forget_guesses();
  token_count_ = count;
  drop_activations(count);
}

void MedusaDrafter::add_activations(std::uint32_t first, std::span<const float> rows) {
  const std::size_t dim = heads_->config().dim;
  EDGEDRAFT_CHECK(rows.size() % dim == 0);
  // One more than there are heads: the newest may belong to the last token.
  const std::size_t kept = heads_->config().head_count + std::size_t{1};
  const std::size_t count = rows.size() / dim;
  for (std::size_t i = count - std::min(count, kept); i < count; ++i) {
    const auto row = rows.subspan(i * dim, dim);
    features_.insert_or_assign(first + static_cast<std::uint32_t>(i),
                               std::vector<float>(row.begin(), row.end()));
  }
  while (features_.size() > kept) features_.erase(features_.begin());
  forget_guesses();
}

void MedusaDrafter::drop_activations(std::uint32_t first) {
  const auto dropped = features_.lower_bound(first);
  if (dropped == features_.end()) return;
  features_.erase(dropped, features_.end());
  forget_guesses();
}

void MedusaDrafter::forget_guesses() {
  made_from_.reset();
  guesses_ = {};
}

std::map<std::uint32_t, std::vector<float>>::const_iterator MedusaDrafter::newest() const {
  const auto behind = features_.lower_bound(std::max(token_count_, 1u) - 1);
  return behind == features_.begin() ? features_.end() : std::prev(behind);
}

std::uint32_t MedusaDrafter::passed_heads() const {
  const std::uint32_t all = heads_->config().head_count;
  const auto feature = newest();
  if (feature == features_.end()) return all;
  // The first head guesses the token two positions after the feature's.
  return std::min(all, token_count_ - 2 - feature->first);
}

bool MedusaDrafter::grow(TreeGrowth& growth, const GrowthBudget& budget) {
  EDGEDRAFT_CHECK(token_count_ > 0);
  const MedusaConfig& config = heads_->config();
  const std::uint32_t passed = passed_heads();
  const std::uint32_t depth_max =
      std::min(config.head_count - passed, positions_max_ - std::min(positions_max_, token_count_));
  growth.limit_depth(depth_max);
  if (!growth.is_bound_to(made_from_)) {
    growth.clear();
    if (made_from_ == nullptr) made_from_ = std::make_shared<char>();
    growth.bind_rows(made_from_);
  }
  if (growth.done()) return true;
  if (budget.rows == 0) return false;
  make_guesses(std::min(growth.children_wanted(), config.head_rows()));
  // If more guesses than the breadth are requested, some will be excluded and ranks change.
  const bool any_guess = growth.children_wanted() == growth.shape().breadth;
  if (!config.tree.empty() && passed == 0 && any_guess) {
    add_fixed_tree(growth, std::min(depth_max, growth.shape().depth));
    growth.finish();
    return true;
  }
  return grow_by_level(growth, budget);
}

void MedusaDrafter::make_guesses(std::uint32_t per_level) {
  if (guesses_.per_level == per_level) return;
  const std::uint32_t passed = passed_heads();
  const std::uint32_t levels = heads_->config().head_count - passed;
  const std::size_t count = std::size_t{levels} * per_level;
  guesses_ = {.per_level = per_level,
              .tokens = std::vector<std::uint32_t>(count),
              .log_probs = std::vector<float>(count)};
  heads_->backend().top_k({.logits = heads_->logits(newest()->second, passed, levels),
                           .k = per_level,
                           .tokens = guesses_.tokens,
                           .log_probs = guesses_.log_probs});
  const std::vector<std::uint32_t>& draft_tokens = heads_->config().draft_tokens;
  if (draft_tokens.empty()) return;
  for (std::uint32_t& token : guesses_.tokens) token = draft_tokens[token];
}

bool MedusaDrafter::grow_by_level(TreeGrowth& growth, const GrowthBudget& budget) {
  std::uint32_t rows_left = budget.rows;
  while (rows_left > 0) {
    const GrowthLevel level = growth.next(rows_left);
    if (level.empty()) return true;
    std::vector<std::uint32_t> tokens;
    std::vector<float> log_probs;
    for (const GrowthNode& node : level.nodes) {
      if (!level.children) break;  // no per-node state can be missing
      const auto first = static_cast<std::ptrdiff_t>(node.depth) * guesses_.per_level;
      std::copy_n(guesses_.tokens.begin() + first, guesses_.per_level, std::back_inserter(tokens));
      std::copy_n(guesses_.log_probs.begin() + first, guesses_.per_level,
                  std::back_inserter(log_probs));
    }
    growth.answer(level, tokens, log_probs);
    if (level.children) rows_left -= static_cast<std::uint32_t>(level.nodes.size());
  }
  return growth.done();
}

void MedusaDrafter::add_fixed_tree(TreeGrowth& growth, std::uint32_t depth_max) {
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
    const std::uint32_t breadth = std::min(growth.shape().breadth, guesses_.per_level);
    if (parent.id != kLeftOut && place.depth <= depth_max && node.rank < breadth) {
      const std::size_t guess = std::size_t{parent.depth} * guesses_.per_level + node.rank;
      place.id = growth.add(guesses_.tokens[guess], parent.id, guesses_.log_probs[guess]);
    }
    places.push_back(place);
  }
}

}  // namespace edgedraft
