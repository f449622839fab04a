#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "shared/drafting/drafter_kind.h"
#include "shared/drafting/network_drafter.h"
#include "tests/support/table_network.h"
#include "tests/support/toy_models.h"

namespace edgedraft::testing {

using Tokens = std::vector<std::uint32_t>;

enum class ToyDrafter : std::uint8_t {
  none,
  moa_tli0,
  moa_tli1,
  moa_tli3,
  moa_projected,  // with the projection on the server
  eagle,
  eagle3,
  mtp,
  medusa,       // with a tree built from its probabilities
  medusa_tree,  // with its bundle's tree
  multistream,
  independent,   // another model than the target
  moa_reduced,   // with only reduced_tokens()
  twin_reduced,  // the target's own network, with only reduced_tokens()
  twin,          // the target itself: greedy, it is always right
  hashed,        // random logits
  noisy,         // twin's trees with wrong and doubled siblings in them
  lookup,        // copies from the conversation
  moa_merged,    // moa_tli1 and n-grams of the conversation on one tree
};
inline constexpr std::uint32_t kToyDrafterCount = 19;
std::string name_of(ToyDrafter drafter);

// The reduced drafters' vocabulary: the end token and every third one.
Tokens reduced_tokens();

// A drafter that always proposes one token with certainty.
class RepeatingDrafter final : public NetworkDrafter {
 public:
  static constexpr std::uint32_t kToken = 7;

 private:
  DraftNetwork& network() override { return network_; }
  TableNetwork network_{kToyVocabulary, [](std::span<const std::uint32_t>) {
                          std::vector<float> logits(kToyVocabulary);
                          logits[kToken] = 9.0f;
                          return logits;
                        }};
};

// Makes the drafters of one kind for a target, and owns the tap that feeds them.
class ToyDrafters {
 public:
  // Requires  the target's backend and each drafter's outlive them
  ToyDrafters(ToyDrafter kind, const ToyDecoder& target, Backend& target_backend,
              std::uint32_t context_count);

  std::unique_ptr<Drafter> make(Backend& backend) const;  // null for none
  Tap* tap() const { return tap_.get(); }                 // null if they need only tokens
  // The target's states that the tap reads.
  std::vector<std::uint32_t> states() const;

 private:
  std::unique_ptr<DrafterModel> make_model();

  ToyDrafter kind_;
  ToyDecoder target_;
  std::uint32_t context_count_;
  std::shared_ptr<TensorPool> pool_;  // tensors of the model, which may also use the target's
  std::unique_ptr<DrafterModel> model_;
  std::unique_ptr<Tap> tap_;
};

}  // namespace edgedraft::testing
