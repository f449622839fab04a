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

// Where scores are sent or counted they are whole steps below certainty, eighths of a nat. The
// order of scores is kept, ties may arise.
using ScoreSteps = std::uint32_t;

inline constexpr float kScoreStepsPerNat = 8.0f;
inline constexpr ScoreSteps kScoreStepsMax = 1'000'000;

// Rounded to the nearest; kScoreStepsMax for NaN and everything lower than that.
inline constexpr ScoreSteps to_steps(Score score) {
  // Written so that NaN becomes the lowest score.
  const float steps = -score * kScoreStepsPerNat;
  if (!(steps < static_cast<float>(kScoreStepsMax))) return kScoreStepsMax;
  return static_cast<ScoreSteps>(std::max(steps, 0.0f) + 0.5f);
}

inline constexpr Score from_steps(ScoreSteps steps) {
  return -static_cast<float>(steps) / kScoreStepsPerNat;
}

// In a byte, as a message carries a node's score below its parent's: 255 stands for 31.875 nats and
// everything below.
inline constexpr std::uint8_t byte_of(ScoreSteps steps) {
  return static_cast<std::uint8_t>(std::min(steps, ScoreSteps{255}));
}

// The score of a path within a subtree, seen from the subtree's root.
inline constexpr Score relative_score(Score path, Score root) {
  return std::clamp(path - root, kScoreMin, 0.0f);
}

}  // namespace edgedraft
