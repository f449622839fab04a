#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "shared/drafting/draft_network.h"
#include "shared/drafting/drafter.h"
#include "shared/runtime/memory_meter.h"
#include "shared/speculative/tree_growth.h"

namespace edgedraft {

// Grows a tree with a network, until it is done (true) or the budget is spent (false). The root's
// children come from the logits of network.commit(). After that the network holds the draft rows
// numbered by `growth`.
//
// Cost      one call of network.expand per level, or part of one
bool grow(DraftNetwork& network, TreeGrowth& growth, const GrowthBudget& budget = {});

// A whole tree below the last committed token.
//
// Requires  valid(shape); network.commit() was the last call
// Cost      shape.depth - 1 calls of network.expand
DraftTree grow_tree(DraftNetwork& network, const TreeShape& shape);

class NetworkDrafter;

// The drafter whose logits are in the scratch memory shared by drafters on the same weights: the
// last one that computed.
using SharedLogits = std::shared_ptr<const NetworkDrafter*>;
inline SharedLogits make_shared_logits() {
  return std::make_shared<const NetworkDrafter*>(nullptr);
}

// A drafter that is a neural network. Tokens are queued until a tree or logits are needed, so each
// verdict costs one pass.
class NetworkDrafter : public Drafter {
 public:
  // `latest`: shared by all drafters on the same weights.
  explicit NetworkDrafter(SharedLogits latest = make_shared_logits())
      : latest_(std::move(latest)) {}
  NetworkDrafter(const NetworkDrafter&) = delete;
  NetworkDrafter& operator=(const NetworkDrafter&) = delete;
  ~NetworkDrafter() override {
    if (*latest_ == this) *latest_ = nullptr;
  }

  std::uint32_t token_count() const override { return static_cast<std::uint32_t>(tokens_.size()); }
  void append(std::span<const std::uint32_t> tokens) override;
  void truncate(std::uint32_t count) override;
  // Draft rows stay valid until tokens or activations arrive; needed ones are then recomputed. With
  // a budget, a long text is first read in parts, one per call.
  bool grow(TreeGrowth& growth, const GrowthBudget& budget) override;
  std::span<const float> next_logits() override;

 protected:
  virtual DraftNetwork& network() = 0;
  // The network's logits no longer belong to the last token, and its draft rows are gone or stale.
  void forget_logits() {
    logits_current_ = false;
    rows_owner_.reset();
  }

 private:
  // Runs the queued tokens, and the last one again if its logits are gone. False if the network has
  // too few positions.
  bool run_pending();
  // If more than one pass of tokens is queued, runs one pass.
  bool read_part();
  void reserve_logits();

  SharedLogits latest_;
  std::vector<std::uint32_t> tokens_;
  bool logits_current_ = false;
  // Identity of the network's draft rows; null: none.
  std::shared_ptr<const void> rows_owner_;
  std::vector<float> columns_;  // logits of a reduced vocabulary, before scattering
  std::vector<float> logits_;
  HeldMemory logits_held_;  // memory of these two
};

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
