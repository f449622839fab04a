#include "shared/runtime/recurrent_states.h"

#include <algorithm>

#include "shared/base/check.h"
#include "shared/runtime/checkpoint_pool.h"

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
  std::uint64_t state_floats() const {
    if (convolution_cols == 0) return 0;
    return std::uint64_t{taps - 1} * convolution_cols +
           std::uint64_t{delta.value_cols()} * delta.dim;
  }
  std::uint64_t kept_floats() const { return convolution_cols + delta_kept_cols(); }
};

std::uint64_t copy_floats(const DecoderConfig& config) {
  std::uint64_t floats = 0;
  for (std::uint32_t i = 0; i < config.layer_count; ++i) {
    floats += Sizes(config.plan(i)).state_floats();
  }
  return floats;
}

std::uint64_t floats_of(const DecoderConfig& config, std::uint32_t rows_max) {
  // The states are there twice: as they are and as saved.
  std::uint64_t floats = 2 * copy_floats(config);
  for (std::uint32_t i = 0; i < config.layer_count; ++i) {
    floats += rows_max * Sizes(config.plan(i)).kept_floats();
  }
  return floats;
}

// Takes consecutive matrices of a buffer.
class Placing {
 public:
  Placing(Buffer& memory, std::uint64_t offset) : memory_(memory), offset_(offset) {}
  Matrix take(std::uint32_t rows, std::uint32_t cols) {
    const Matrix matrix{
        .buffer = &memory_, .offset = offset_, .rows = rows, .cols = cols, .stride = cols};
    offset_ += std::uint64_t{rows} * cols;
    return matrix;
  }

 private:
  Buffer& memory_;
  std::uint64_t offset_;
};

}  // namespace

RecurrentStates::RecurrentStates(Backend& backend, const DecoderConfig& config,
                                 std::uint32_t rows_max)
    : backend_(backend),
      rows_max_(rows_max),
      memory_(backend.allocate(floats_of(config, rows_max))),
      states_(lay_out(config, *memory_, 0)),
      saved_states_(lay_out(config, *memory_, copy_floats(config))) {
  Placing placing(*memory_, 2 * copy_floats(config));
  auto state = states_.begin();
  for (std::uint32_t i = 0; i < config.layer_count; ++i) {
    const Sizes sizes(config.plan(i));
    Layer& layer = layers_.emplace_back();
    if (sizes.convolution_cols == 0) continue;
    layer.convolution_state = *state++;
    layer.convolution_kept = placing.take(rows_max, sizes.convolution_cols);
    if (sizes.delta.dim == 0) continue;
    layer.delta_state = *state++;
    layer.delta_kept = placing.take(rows_max, sizes.delta_kept_cols());
  }
}

std::vector<Matrix> RecurrentStates::lay_out(const DecoderConfig& config, Buffer& memory,
                                             std::uint64_t offset) {
  std::vector<Matrix> states;
  Placing placing(memory, offset);
  for (std::uint32_t i = 0; i < config.layer_count; ++i) {
    const Sizes sizes(config.plan(i));
    if (sizes.convolution_cols == 0) continue;
    states.push_back(placing.take(sizes.taps - 1, sizes.convolution_cols));
    if (sizes.delta.dim == 0) continue;
    states.push_back(placing.take(sizes.delta.value_cols(), sizes.delta.dim));
  }
  return states;
}

std::uint64_t RecurrentStates::bytes(const DecoderConfig& config, std::uint32_t rows_max) {
  return floats_of(config, rows_max) * sizeof(float);
}

std::uint64_t RecurrentStates::copy_bytes(const DecoderConfig& config) {
  return copy_floats(config) * sizeof(float);
}

void RecurrentStates::save() {
  copy(states_, saved_states_);
  saved_ = settled_;
}

void RecurrentStates::copy(std::span<const Matrix> from, std::span<const Matrix> to) {
  for (std::size_t i = 0; i < from.size(); ++i) {
    backend_.store({.x = from[i], .cache = to[i], .first = 0});
  }
}

void RecurrentStates::restore(const StateCheckpoint& checkpoint) {
  EDGEDRAFT_CHECK(checkpoint.states().size() == states_.size());
  pending_.clear();
  copy(checkpoint.states(), states_);
  settled_ = checkpoint.length();
  if (saved_ > settled_) saved_ = 0;
}

std::uint32_t RecurrentStates::go_back(std::uint32_t length) {
  pending_.clear();
  if (saved_ > 0 && saved_ <= length) {
    copy(saved_states_, states_);
    settled_ = saved_;
    return settled_;
  }
  std::vector<float> zeros;
  for (const Matrix& state : states_) {
    zeros.resize(std::max<std::size_t>(zeros.size(), std::size_t{state.rows} * state.cols));
    backend_.write(state, std::span(zeros).first(std::size_t{state.rows} * state.cols));
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
