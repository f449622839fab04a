#pragma once

// Prompts that the demo models can answer, at length and briefly.
namespace edgedraft::testing {

inline constexpr const char* kStory = "Tell me a story about a dog and a ball.";
inline constexpr const char* kQuestion = "What is 47 plus 38?";

}  // namespace edgedraft::testing
