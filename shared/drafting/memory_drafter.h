#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "shared/drafting/network_drafter.h"

namespace edgedraft {

// The drafter of a network that keeps what a tap sends of positions as a memory. The network has
//   activation_cols(), extend_memory(first_position, rows), truncate_memory(position).
template <class Network>
class MemoryDrafter final : public NetworkDrafter {
 public:
  // On weights of its own; `parts` make the network.
  template <class... Parts>
  explicit MemoryDrafter(Backend& backend, Parts&&... parts)
      : network_(backend, std::forward<Parts>(parts)...) {}
  // One of several on the same weights, which share `latest`.
  template <class Weights>
  MemoryDrafter(std::shared_ptr<Weights> weights, SharedLogits latest)
      : NetworkDrafter(std::move(latest)), network_(std::move(weights)) {}

  std::uint32_t activation_cols() const override { return network_.activation_cols(); }
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

  Network network_;
};

}  // namespace edgedraft
