#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "shared/drafting/moa/moa_network.h"
#include "shared/drafting/network_drafter.h"

namespace edgedraft {

class MoaDrafter final : public NetworkDrafter {
 public:
  // Requires  the bytes behind `tensors` outlive the drafter
  MoaDrafter(Backend& backend, const MoaConfig& config, const MoaTensors& tensors,
             std::uint32_t positions_max)
      : network_(backend, config, tensors, positions_max) {}
  // One of several on the same weights, which share `latest`.
  MoaDrafter(std::shared_ptr<MoaWeights> weights, SharedLogits latest)
      : NetworkDrafter(std::move(latest)), network_(std::move(weights)) {}

  std::uint32_t activation_cols() const override { return network_.row_layout().cols(); }
  void add_activations(std::uint32_t first, std::span<const float> rows) override {
    network_.extend_memory(first, rows);
    forget_logits();
  }
  void drop_activations(std::uint32_t first) override {
    network_.truncate_memory(first);
    forget_logits();
  }
  void truncate(std::uint32_t count) override {
    NetworkDrafter::truncate(count);
    drop_activations(count);
  }

 private:
  DraftNetwork& network() override { return network_; }

  MoaNetwork network_;
};

}  // namespace edgedraft
