#pragma once

// Prompts that the demo models know how to answer: at length and in a few words.
namespace edgedraft::testing {

inline constexpr const char* kStory = "Tell me a story about a dog and a ball.";
inline constexpr const char* kQuestion = "What is 47 plus 38?";

}  // namespace edgedraft::testing
