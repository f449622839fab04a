#pragma once

#include <cstddef>
#include <string>
#include <string_view>

namespace edgedraft::client {

// An answer as a terminal shows it: in one of several channels (thoughts.h), the thought, a blank
// line and the answer, without marks. Other answers are not changed.
class ChannelText {
 public:
  // Appends text of the answer. Returns the new text to show.
  std::string push(std::string_view text);
  // Call after the last text. Returns the text that was held back.
  std::string finish();

 private:
  std::string take(bool whole);

  std::string text_;
  std::size_t given_ = 0;  // bytes of it that were shown or dropped
};

}  // namespace edgedraft::client
