#pragma once

#include <cstdint>
#include <span>

namespace edgedraft::client {

// Mean likelihood of a drafter's latest tokens by its own logits. Threads   one
class DrafterConfidence {
 public:
  // Number of latest tokens that are judged.
  static constexpr std::uint32_t kTokens = 8;

  // Unsure if the geometric mean of the probabilities is below `floor`.
  explicit DrafterConfidence(double floor = 0.0) : floor_(floor) {}

  // Shapes    logits [vocabulary]; `token` was drawn from them
  void observe(std::span<const float> logits, std::uint32_t token);
  // False until kTokens were seen.
  bool unsure() const;

 private:
  double floor_;
  std::uint32_t count_ = 0;
  double logs_[kTokens] = {};  // log probabilities, as a ring
};

}  // namespace edgedraft::client
