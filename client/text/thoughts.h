#pragma once

#include <cstddef>
#include <string_view>

namespace edgedraft::client {

// Begins a message of a channel.
inline constexpr std::string_view kChannel = "<|channel|>";
// End of a thought.
inline constexpr std::string_view kThoughtEnd = "</think>";

// Thoughts of models that write them first: "<think>...</think>" before the answer itself, or
// messages of other channels before that of the channel "final".
enum class Thoughts : unsigned char {
  none,   // the text has no thoughts
  maybe,  // it may begin with one
  begun,  // the prompt has begun one
};

// A text split into thought and answer, without the marks and the blanks around them. Either may be
// empty; other bytes are not shown.
struct SplitText {
  std::size_t thought_begin = 0;
  std::size_t thought_end = 0;
  std::size_t answer_begin = 0;
  // Later text may still decide the role of the bytes from here on.
  std::size_t decided_end = 0;
};

// `whole`: the text is complete. Requires  thoughts != Thoughts::none
SplitText split_thoughts(std::string_view text, Thoughts thoughts, bool whole);

// Returns the content of an answer for a chat template. Templates drop "<think>" themselves, but
// refuse channels.
std::string_view content_of(std::string_view text);

}  // namespace edgedraft::client
