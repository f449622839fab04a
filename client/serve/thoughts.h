#pragma once

#include <cstddef>
#include <string_view>

namespace edgedraft {

// What a thought ends with.
inline constexpr std::string_view kThoughtEnd = "</think>";

// Where models that think aloud say what they think: "<think>...</think>" before the answer itself.
enum class Thoughts : unsigned char {
  none,   // the text is taken as it is
  maybe,  // it may begin with one
  begun,  // the prompt has begun one
};

// A text as a thought and what follows it, without the marks and the blanks around them. Either may
// be empty; what is neither is not to be shown.
struct SplitText {
  std::size_t thought_begin = 0;
  std::size_t thought_end = 0;
  std::size_t answer_begin = 0;
  // What follows may decide what these bytes and all behind them are.
  std::size_t decided_end = 0;
};

// `whole`: nothing follows. Requires  thoughts != Thoughts::none
SplitText split_thoughts(std::string_view text, Thoughts thoughts, bool whole);

}  // namespace edgedraft
