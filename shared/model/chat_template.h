#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "shared/base/error.h"
#include "shared/model/gguf.h"
#include "shared/model/marked_text.h"

namespace edgedraft {
namespace chat {
struct Statement;
}

// Templates come from model files, so everything they may do is bounded.
inline constexpr std::size_t kTemplateBytesMax = 256u << 10;
inline constexpr std::size_t kTemplateStepsMax = 1u << 20;  // about a second
inline constexpr std::size_t kTemplateOutputBytesMax = 16u << 20;
inline constexpr std::size_t kTemplateDepthMax = 64;  // nesting of expressions and blocks

// A function that an assistant's message calls.
struct ChatCall {
  std::string name;
  std::string arguments;  // a JSON object, as text
  std::string id{};       // that its result names

  bool operator==(const ChatCall&) const = default;
};

struct ChatMessage {
  std::string role;  // "system", "user", "assistant" or "tool"; any other is foreign text
  std::string content;
  std::vector<ChatCall> calls{};  // of an assistant
  // In a tool's message, whose content is the result: the id of the call, and the function's name.
  std::string call_id{};
  std::string name{};
  // The thought before an assistant's answer (reasoning_content).
  std::string reasoning{};

  bool operator==(const ChatMessage&) const = default;
};

// Templates disagree about what a call's arguments are.
enum class CallArguments : std::uint8_t { text, object };

struct ChatInput {
  std::span<const ChatMessage> messages;
  std::string bos_token;
  std::string eos_token;
  bool add_generation_prompt = false;  // end where the assistant's answer begins
  std::string_view tools{};            // that it may call: a JSON array as OpenAI's; empty: none
  CallArguments call_arguments = CallArguments::text;
  // Further variables of the template, as enable_thinking: a JSON object; empty: none.
  std::string_view variables{};
  // The time that strftime_now() formats, in the system's time zone.
  std::chrono::system_clock::time_point now = std::chrono::system_clock::now();
};

// Whether the template's variable of that name is the renderer's own, and no further one.
bool is_own_variable(std::string_view name);

// A model's chat template: the part of Jinja that real templates use, with Hugging Face's settings
// (trim_blocks, lstrip_blocks, loop controls). docs/models.md lists what it knows.
class ChatTemplate {
 public:
  // Errors    unsupported: names the construct and its line, and the way round it
  static Result<ChatTemplate> parse(std::string_view source);

  // The text, in which all that comes from a message is marked as foreign.
  // Errors    unsupported: the template refuses the conversation, or uses what is not there
  //           usage: a limit is exceeded; tools, arguments or variables are no JSON, or a
  //           variable is the renderer's own
  Result<MarkedText> render(const ChatInput& input) const;

 private:
  using Body = std::vector<chat::Statement>;
  explicit ChatTemplate(std::shared_ptr<const Body> body) : body_(std::move(body)) {}

  std::shared_ptr<const Body> body_;
};

// The source of the file's own template (tokenizer.chat_template).
// Errors    unsupported where it has none; the message says what to do
Result<std::string_view> chat_template_source(const GgufFile& file);

}  // namespace edgedraft
