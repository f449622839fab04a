#include "shared/runtime/recurrent_states.h"

#include <algorithm>

#include "shared/base/check.h"

namespace edgedraft {
namespace {

struct Sizes {
  std::uint32_t convolution_cols = 0;
  std::uint32_t taps = 0;
  DeltaShape delta;

  explicit Sizes(const LayerPlan& plan) : taps(plan.taps) {
    if (plan.mixer == Mixer::convolution) convolution_cols = plan.shape.dim;
    if (plan.mixer == Mixer::delta_rule) {
      convolution_cols = plan.delta.mixed_cols();
      delta = plan.delta;
    }
  }
  std::uint32_t delta_kept_cols() const {
    return delta.key_cols() + delta.value_cols() + 2 * delta.value_heads;
  }
  std::uint64_t floats(std::uint32_t rows_max) const {
    if (convolution_cols == 0) return 0;
    // The states are there twice: as they are and as saved.
    return std::uint64_t{2 * (taps - 1) + rows_max} * convolution_cols +
           2 * std::uint64_t{delta.value_cols()} * delta.dim +
           std::uint64_t{rows_max} * delta_kept_cols();
  }
};

std::uint64_t floats_of(const DecoderConfig& config, std::uint32_t rows_max) {
  std::uint64_t floats = 0;
  for (std::uint32_t i = 0; i < config.layer_count; ++i) {
    floats += Sizes(config.plan(i)).floats(rows_max);
  }
  return floats;
}

}  // namespace

RecurrentStates::RecurrentStates(Backend& backend, const DecoderConfig& config,
                                 std::uint32_t rows_max)
    : backend_(backend),
      rows_max_(rows_max),
      memory_(backend.allocate(floats_of(config, rows_max))) {
  std::uint64_t offset = 0;
  const auto take = [&](std::uint32_t rows, std::uint32_t cols) {
    const Matrix matrix{
        .buffer = memory_.get(), .offset = offset, .rows = rows, .cols = cols, .stride = cols};
    offset += std::uint64_t{rows} * cols;
    return matrix;
  };
  for (std::uint32_t i = 0; i < config.layer_count; ++i) {
    const Sizes sizes(config.plan(i));
    Layer& layer = layers_.emplace_back();
    if (sizes.convolution_cols == 0) continue;
    layer.convolution_state = take(sizes.taps - 1, sizes.convolution_cols);
    layer.convolution_saved = take(sizes.taps - 1, sizes.convolution_cols);
    layer.convolution_kept = take(rows_max, sizes.convolution_cols);
    if (sizes.delta.dim == 0) continue;
    layer.delta_state = take(sizes.delta.value_cols(), sizes.delta.dim);
    layer.delta_saved = take(sizes.delta.value_cols(), sizes.delta.dim);
    layer.delta_kept = take(rows_max, sizes.delta_kept_cols());
  }
}

std::uint64_t RecurrentStates::bytes(const DecoderConfig& config, std::uint32_t rows_max) {
  return floats_of(config, rows_max) * sizeof(float);
}

void RecurrentStates::save() {
  for (const Layer& layer : layers_) {
    copy(layer.convolution_state, layer.convolution_saved);
    copy(layer.delta_state, layer.delta_saved);
  }
  saved_ = settled_;
}

void RecurrentStates::copy(const Matrix& from, const Matrix& to) {
  if (from.buffer != nullptr) backend_.store({.x = from, .cache = to, .first = 0});
}

std::uint32_t RecurrentStates::go_back(std::uint32_t length) {
  pending_.clear();
  if (saved_ > 0 && saved_ <= length) {
    for (const Layer& layer : layers_) {
      copy(layer.convolution_saved, layer.convolution_state);
      copy(layer.delta_saved, layer.delta_state);
    }
    settled_ = saved_;
    return settled_;
  }
  std::vector<float> zeros;
  for (const Layer& layer : layers_) {
    for (const Matrix& state : {layer.convolution_state, layer.delta_state}) {
      if (state.buffer == nullptr) continue;
      zeros.resize(std::max<std::size_t>(zeros.size(), std::size_t{state.rows} * state.cols));
      backend_.write(state, std::span(zeros).first(std::size_t{state.rows} * state.cols));
    }
  }
  settled_ = 0;
  saved_ = 0;
  return 0;
}

void RecurrentStates::shorten(std::uint32_t length) {
  EDGEDRAFT_CHECK(length >= settled_);
  if (length - settled_ < pending_.size()) pending_.resize(length - settled_);
}

void RecurrentStates::keep(std::span<const std::uint32_t> slots) {
  for (const std::uint32_t slot : slots) {
    if (slot >= settled_) pending_.push_back(slot - settled_);
  }
}

void RecurrentStates::begin(std::uint32_t length, std::uint32_t first_slot, std::uint32_t settled,
                            std::span<const std::uint32_t> parents) {
  const bool continues = first_slot > length;
  // The rows before a tree that continues were given by an earlier call, which folded the rest in.
  EDGEDRAFT_CHECK(settled_ + pending_.size() == length);
  EDGEDRAFT_CHECK(!continues || (pending_.empty() && settled == 0));
  count_ = static_cast<std::uint32_t>(parents.size());
  first_ = first_slot - length;
  settling_ = settled;
  settled_after_ = length + settled;
  EDGEDRAFT_CHECK(first_ + count_ - settled <= rows_max_);
  EDGEDRAFT_CHECK(first_ <= parents_.size());
  parents_.resize(first_);  // those of the tree so far
  for (const std::uint32_t slot : parents.subspan(settled)) {
    const bool kept = slot != kNoParent && slot >= settled_after_;
    parents_.push_back(kept ? slot - settled_after_ : kNoParent);
  }
}

RecurrentRows RecurrentStates::rows(const Matrix& state, const Matrix& kept) const {
  return {.rows = count_,
          .state = state,
          .kept = kept,
          .pending = pending_,
          .settled = settling_,
          .first = first_,
          .parents = parents_};
}

RecurrentRows RecurrentStates::convolution(std::uint32_t i) const {
  return rows(layers_[i].convolution_state, layers_[i].convolution_kept);
}

RecurrentRows RecurrentStates::delta(std::uint32_t i) const {
  return rows(layers_[i].delta_state, layers_[i].delta_kept);
}

void RecurrentStates::end() {
  settled_ = settled_after_;
  pending_.clear();
}

}  // namespace edgedraft
