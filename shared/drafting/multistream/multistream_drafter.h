#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "shared/drafting/level_drafter.h"
#include "shared/drafting/multistream/multistream_network.h"
#include "shared/drafting/tap.h"

namespace edgedraft {

// Drafts with the streams of the newest position. All paths of the streams' likeliest tokens form
// the tree; the product of a path's probabilities decides which nodes are sent.
class MultistreamDrafter final : public LevelDrafter {
 public:
  MultistreamDrafter(std::shared_ptr<MultistreamWeights> weights, std::uint32_t positions_max)
      : LevelDrafter(positions_max), network_(std::move(weights)) {}

  std::uint32_t activation_cols() const override { return network_.activation_cols(); }
  void add_activations(std::uint32_t first, std::span<const float> rows) override {
    network_.extend_memory(first, rows);
    forget_guesses();
  }
  void drop_activations(std::uint32_t first) override {
    network_.truncate_memory(first);
    forget_guesses();
  }

 protected:
  const BundleConfig& sizes() const override { return network_.config(); }
  std::uint32_t guess_count() const override { return network_.config().stream_count; }
  std::optional<std::uint32_t> newest_before(std::uint32_t end) const override {
    return network_.newest_before(end);
  }
  Matrix guess(std::uint32_t position, std::uint32_t first, std::uint32_t count) override {
    return network_.logits(position, first, count);
  }
  Backend& backend() override { return network_.backend(); }

 private:
  MultistreamNetwork network_;
};

// The server's half: the hidden state at which streams begin, and the last layers' keys and values.
class MultistreamTap final : public Tap {
 public:
  MultistreamTap(Backend& backend, const MultistreamConfig& config);

  std::span<const std::uint32_t> states() const override { return std::span(&state_, 1); }
  std::span<const std::uint32_t> scale_groups() const override { return groups_; }
  void read(const KvCache& cache, std::uint32_t first, std::uint32_t count,
            std::span<float> rows) override;

 private:
  Backend& backend_;
  std::uint32_t layer_count_;
  std::uint32_t state_;
  std::vector<std::uint32_t> groups_;
  std::vector<float> block_;
};

}  // namespace edgedraft
