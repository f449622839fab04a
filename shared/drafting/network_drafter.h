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

// The drafter whose logits are in the scratch memory that drafters on the same weights share: the
// one that computed last.
using SharedLogits = std::shared_ptr<const NetworkDrafter*>;
inline SharedLogits make_shared_logits() {
  return std::make_shared<const NetworkDrafter*>(nullptr);
}

// A drafter that is a neural network: tokens wait until a tree or logits are wanted, so that each
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
  // Draft rows stay usable for as long as neither tokens nor activations come; then those that are
  // needed run again. With a budget a long text is read in parts first, one a call.
  bool grow(TreeGrowth& growth, const GrowthBudget& budget) override;
  std::span<const float> next_logits() override;

 protected:
  virtual DraftNetwork& network() = 0;
  // The network's logits are no longer those behind the last token, and its draft rows are gone or
  // stand behind another memory.
  void forget_logits() {
    logits_current_ = false;
    rows_owner_.reset();
  }

 private:
  // Runs the tokens that wait, the last one again if its logits are gone. False if the network has
  // too few positions.
  bool run_pending();
  // Runs a pass's worth of the tokens that wait, where there are more than that.
  bool read_part();
  void reserve_logits();

  SharedLogits latest_;
  std::vector<std::uint32_t> tokens_;
  bool logits_current_ = false;
  // Names the draft rows in the network; null if there are none.
  std::shared_ptr<const void> rows_owner_;
  std::vector<float> columns_;  // the logits of a reduced vocabulary, before they are spread
  std::vector<float> logits_;
  HeldMemory logits_held_;  // these two
};

}  // namespace edgedraft
