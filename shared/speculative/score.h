#pragma once

#include <algorithm>
#include <cstdint>
#include <limits>

namespace edgedraft {

// A drafter's estimate of a path: the sum of log probabilities along it. 0 is certain, and a child
// never scores above its parent. Scores decide what a tree keeps, never what is accepted.
using Score = float;

inline constexpr Score kScoreMin = std::numeric_limits<Score>::lowest();

// Scores for the wire and for counting: whole eighths of a nat below certainty. Order is kept; ties
// may arise.
using ScoreSteps = std::uint32_t;

inline constexpr float kScoreStepsPerNat = 8.0f;
inline constexpr ScoreSteps kScoreStepsMax = 1'000'000;

// Rounded to nearest; kScoreStepsMax for NaN and anything lower.
inline constexpr ScoreSteps to_steps(Score score) {
  // Written so that NaN becomes the lowest score.
  const float steps = -score * kScoreStepsPerNat;
  if (!(steps < static_cast<float>(kScoreStepsMax))) return kScoreStepsMax;
  return static_cast<ScoreSteps>(std::max(steps, 0.0f) + 0.5f);
}

inline constexpr Score from_steps(ScoreSteps steps) {
  return -static_cast<float>(steps) / kScoreStepsPerNat;
}

// Encodes a node's score below its parent's in one byte, as in messages; 255 stands for 31.875 nats
// or more.
inline constexpr std::uint8_t byte_of(ScoreSteps steps) {
  return static_cast<std::uint8_t>(std::min(steps, ScoreSteps{255}));
}

// Score of a path relative to the root of its subtree.
inline constexpr Score relative_score(Score path, Score root) {
  return std::clamp(path - root, kScoreMin, 0.0f);
}

}  // namespace edgedraft
