#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "client/serve/answer/answer_format.h"

namespace edgedraft::client {

// Streams whose events open and close a block for each thought, text and call.
class BlockFormat : public AnswerFormat {
 public:
  std::string begin_event(std::uint32_t choice) final;
  std::string text_event(std::uint32_t choice, const VisibleText::Piece& piece, ClientState state,
                         std::span<const ToldToken> logprobs) final;
  std::string calls_event(std::uint32_t choice, const std::vector<ToolCall>& calls) final;
  std::string end_event(std::uint32_t choice, const FinishedChoice& finished) final;
  std::string last_events(const std::vector<FinishedChoice>& choices) final;

 protected:
  using AnswerFormat::AnswerFormat;
  enum class Block : std::uint8_t { thought, text };

  virtual std::string stream_opening() = 0;
  virtual std::string block_opening(Block block) = 0;
  virtual std::string block_delta(Block block, const std::string& text) = 0;
  // `text`: the whole block's.
  virtual std::string block_closing(Block block, const std::string& text) = 0;
  virtual std::string call_block(const ToolCall& call) = 0;
  virtual std::string stream_closing(const FinishedChoice& finished) = 0;

 private:
  std::string close_block();

  std::optional<Block> open_;
  std::string open_text_;
  std::optional<FinishedChoice> finished_;
};

// A server-sent event with a name.
std::string named_event(const std::string& name, const AnswerFormat::Json& data);

}  // namespace edgedraft::client
