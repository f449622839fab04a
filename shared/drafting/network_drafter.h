#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <utility>
#include <vector>

#include "shared/drafting/draft_network.h"
#include "shared/drafting/drafter.h"
#include "shared/runtime/memory_meter.h"

namespace edgedraft {

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
  HeldMemory logits_held_;  // of these two
};

}  // namespace edgedraft
