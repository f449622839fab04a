#pragma once

#include <cstdint>
#include <span>

namespace edgedraft {

// How likely the tokens that a drafter wrote last were to itself. Threads   one
class DrafterConfidence {
 public:
  // Tokens that it is judged by.
  static constexpr std::uint32_t kTokens = 8;

  // Unsure: where the geometric mean of the probabilities is less.
  explicit DrafterConfidence(double floor = 0.0) : floor_(floor) {}

  // Shapes    logits [vocabulary], of which `token` was drawn
  void observe(std::span<const float> logits, std::uint32_t token);
  // Says nothing before kTokens were seen.
  bool unsure() const;

 private:
  double floor_;
  std::uint32_t count_ = 0;
  double logs_[kTokens] = {};  // of the probabilities, the last ones in turns
};

}  // namespace edgedraft
