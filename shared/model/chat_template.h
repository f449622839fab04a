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

// Limits for templates, which come from untrusted model files.
inline constexpr std::size_t kTemplateBytesMax = 256u << 10;
inline constexpr std::size_t kTemplateStepsMax = 1u << 20;  // about a second
inline constexpr std::size_t kTemplateOutputBytesMax = 16u << 20;
inline constexpr std::size_t kTemplateDepthMax = 64;  // nesting of expressions and blocks

// A function call in an assistant's message.
struct ChatCall {
  std::string name;
  std::string arguments;  // a JSON object, as text
  std::string id{};       // referenced by its result

  bool operator==(const ChatCall&) const = default;
};

struct ChatMessage {
  std::string role;  // "system", "user", "assistant" or "tool"; any other is marked foreign
  std::string content;
  std::vector<ChatCall> calls{};  // made by an assistant
  // For a tool's message, which holds the result: the call's id and the function's name.
  std::string call_id{};
  std::string name{};
  // Reasoning before an assistant's answer (reasoning_content).
  std::string reasoning{};

  bool operator==(const ChatMessage&) const = default;
};

// Type of a call's arguments, about which templates disagree.
enum class CallArguments : std::uint8_t { text, object };

struct ChatInput {
  std::span<const ChatMessage> messages;
  std::string bos_token;
  std::string eos_token;
  bool add_generation_prompt = false;  // end with the start of the assistant's answer
  std::string_view tools{};            // a JSON array as in OpenAI's API; empty: none
  CallArguments call_arguments = CallArguments::text;
  // Further template variables, e.g. enable_thinking: a JSON object; empty: none.
  std::string_view variables{};
  // Time that strftime_now() formats, in the system's time zone.
  std::chrono::system_clock::time_point now = std::chrono::system_clock::now();
};

// True for template variables set by the renderer itself.
bool is_own_variable(std::string_view name);

// A model's chat template: the subset of Jinja used by real templates, with Hugging Face's settings
// (trim_blocks, lstrip_blocks, loop controls). docs/models.md lists what is supported.
class ChatTemplate {
 public:
  // Errors    unsupported: names the construct, its line and a workaround
  static Result<ChatTemplate> parse(std::string_view source);

  // Renders the text; everything from messages is marked as foreign.
  // Errors    unsupported: the template refuses the conversation or uses undefined values
  //           usage: a limit is exceeded; tools, arguments or variables are not JSON, or a
  //           variable is the renderer's own
  Result<MarkedText> render(const ChatInput& input) const;

 private:
  using Body = std::vector<chat::Statement>;
  explicit ChatTemplate(std::shared_ptr<const Body> body) : body_(std::move(body)) {}

  std::shared_ptr<const Body> body_;
};

// Source of the file's own template (tokenizer.chat_template).
// Errors    unsupported if it has none; the message names the remedy
Result<std::string_view> chat_template_source(const GgufFile& file);

}  // namespace edgedraft
