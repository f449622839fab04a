#include "client/text/channel_text.h"

#include <algorithm>
#include <utility>

#include "client/text/thoughts.h"

namespace edgedraft::client {

std::string ChannelText::push(std::string_view text) {
  text_ += text;
  return take(/*whole=*/false);
}

std::string ChannelText::finish() {
  return take(/*whole=*/true);
}

std::string ChannelText::take(bool whole) {
  if (!text_.starts_with(kChannel)) {
    if (!whole && kChannel.starts_with(text_)) return {};
    return text_.substr(std::exchange(given_, text_.size()));
  }
  const SplitText split = split_thoughts(text_, Thoughts::maybe, whole);
  std::string shown;
  const auto show_to = [&](std::size_t begin, std::size_t end) {
    begin = std::max(begin, given_);
    if (begin >= end) return;
    shown.append(text_, begin, end - begin);
    given_ = end;
  };
  show_to(split.thought_begin, split.thought_end);
  const bool begins = given_ < split.answer_begin && split.answer_begin < text_.size();
  if (begins && split.thought_begin < split.thought_end) shown += "\n\n";
  show_to(split.answer_begin, text_.size());
  return shown;
}

}  // namespace edgedraft::client
