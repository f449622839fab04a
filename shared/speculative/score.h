#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace edgedraft {

// How likely a drafter holds a path to be: the sum of the log-probabilities along it, so 0 is
// certain, and a child never scores more than its parent. Scores are opinions: they decide what is
// kept of a tree and never what is accepted.
using Score = float;

inline constexpr Score kScoreMin = std::numeric_limits<Score>::lowest();

// A score in a byte, for a wire: eighths of a nat below certainty, rounded to the nearest; 255
// stands for -31.875 and everything below. The order of scores is kept, ties may arise.
inline constexpr float kScoreStepsPerNat = 8.0f;

inline constexpr std::uint8_t quantize_score(Score score) {
  // Written so that NaN becomes the lowest score.
  const float steps = -score * kScoreStepsPerNat;
  if (!(steps < 254.5f)) return 255;
  return static_cast<std::uint8_t>(std::max(steps, 0.0f) + 0.5f);
}

inline constexpr Score dequantize_score(std::uint8_t steps) {
  return -static_cast<float>(steps) / kScoreStepsPerNat;
}

// The score of a path within a subtree, seen from the subtree's root.
inline constexpr Score relative_score(Score path, Score root) {
  return std::clamp(path - root, kScoreMin, 0.0f);
}

}  // namespace edgedraft
