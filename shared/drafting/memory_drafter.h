#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>

#include "shared/drafting/network_drafter.h"

namespace edgedraft {

// Drafter of a network that only needs tokens.
template <class Network>
class TokenDrafter : public NetworkDrafter {
 public:
  // With its own weights; `parts` construct the network.
  template <class... Parts>
  explicit TokenDrafter(Backend& backend, Parts&&... parts)
      : network_(backend, std::forward<Parts>(parts)...) {}
  // One of several on the same weights, which share `latest`.
  template <class Weights>
  TokenDrafter(std::shared_ptr<Weights> weights, SharedLogits latest)
      : NetworkDrafter(std::move(latest)), network_(std::move(weights)) {}

 protected:
  DraftNetwork& network() override { return network_; }

  Network network_;
};

// Drafter of a network that stores a tap's rows per position as a memory. The network has
//   activation_cols(), extend_memory(first_position, rows), truncate_memory(position).
template <class Network>
class MemoryDrafter final : public TokenDrafter<Network> {
 public:
  using TokenDrafter<Network>::TokenDrafter;

  std::uint32_t activation_cols() const override { return this->network_.activation_cols(); }
  void add_activations(std::uint32_t first, std::span<const float> rows) override {
    this->network_.extend_memory(first, rows);
    this->forget_logits();
  }
  void drop_activations(std::uint32_t first) override {
    this->network_.truncate_memory(first);
    this->forget_logits();
  }
  void truncate(std::uint32_t count) override {
    NetworkDrafter::truncate(count);
    drop_activations(count);
  }
};

}  // namespace edgedraft
