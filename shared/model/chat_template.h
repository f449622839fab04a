#pragma once

#include <memory>
#include <span>
#include <string>
#include <string_view>

#include "shared/base/error.h"
#include "shared/model/gguf.h"
#include "shared/model/marked_text.h"

namespace edgedraft {

// Templates come from model files, so everything they may do is bounded.
inline constexpr std::size_t kTemplateBytesMax = 256u << 10;
inline constexpr std::size_t kTemplateStepsMax = 1u << 20;  // about a second
inline constexpr std::size_t kTemplateOutputBytesMax = 16u << 20;
inline constexpr std::size_t kTemplateDepthMax = 64;  // nesting of expressions and blocks

struct ChatMessage {
  std::string role;  // "system", "user", "assistant" or "tool"; any other is foreign text
  std::string content;
};

struct ChatInput {
  std::span<const ChatMessage> messages;
  std::string bos_token;
  std::string eos_token;
  bool add_generation_prompt = false;  // end where the assistant's answer begins
};

// A model's chat template: the part of Jinja that real templates use, with Hugging Face's settings
// (trim_blocks, lstrip_blocks, loop controls). docs/models.md lists what it knows.
class ChatTemplate {
 public:
  // Errors    unsupported: names the construct and its line, and the way round it
  static Result<ChatTemplate> parse(std::string_view source);

  ~ChatTemplate();
  ChatTemplate(ChatTemplate&&) noexcept;
  ChatTemplate& operator=(ChatTemplate&&) noexcept;

  // The text, in which all that comes from a message is marked as foreign.
  // Errors    unsupported: the template refuses the conversation, or uses what is not there
  //           usage: a limit is exceeded
  Result<MarkedText> render(const ChatInput& input) const;

 private:
  struct State;
  explicit ChatTemplate(std::unique_ptr<State> state);

  std::unique_ptr<State> state_;
};

// The source of the file's own template (tokenizer.chat_template).
// Errors    unsupported where it has none; the message says what to do
Result<std::string_view> chat_template_source(const GgufFile& file);

}  // namespace edgedraft
