#include "client/serve/dialects/block_format.h"

#include <utility>

#include "client/json_line.h"

namespace edgedraft::client {

std::string BlockFormat::begin_event(std::uint32_t /*choice*/) {
  return stream_opening();
}

std::string BlockFormat::text_event(std::uint32_t /*choice*/, const VisibleText::Piece& piece,
                                    ClientState /*state*/,
                                    std::span<const ToldToken> /*logprobs*/) {
  if (piece.text.empty()) return {};
  const Block block = piece.is_thought ? Block::thought : Block::text;
  std::string events;
  if (open_ != block) {
    events = close_block();
    events += block_opening(block);
    open_ = block;
  }
  open_text_ += piece.text;
  return events + block_delta(block, piece.text);
}

std::string BlockFormat::calls_event(std::uint32_t /*choice*/, const std::vector<ToolCall>& calls) {
  std::string events = close_block();
  for (const ToolCall& call : calls) events += call_block(call);
  return events;
}

std::string BlockFormat::end_event(std::uint32_t /*choice*/, const FinishedChoice& finished) {
  finished_ = finished;
  return close_block();
}

// A stream's calls are in the choice at its own end only.
std::string BlockFormat::last_events(const std::vector<FinishedChoice>& choices) {
  return stream_closing(finished_ ? *finished_ : choices.front());
}

std::string BlockFormat::close_block() {
  const auto block = std::exchange(open_, std::nullopt);
  const std::string text = std::exchange(open_text_, {});
  return block ? block_closing(*block, text) : std::string();
}

std::string named_event(const std::string& name, const AnswerFormat::Json& data) {
  return "event: " + name + "\ndata: " + json_line(data) + "\n\n";
}

}  // namespace edgedraft::client
