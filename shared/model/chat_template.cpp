#include "shared/model/chat_template.h"

#include <algorithm>
#include <utility>

#include "shared/model/chat_template/evaluator.h"
#include "shared/model/chat_template/parser.h"

namespace edgedraft {

struct ChatTemplate::State {
  chat::Body body;
};

ChatTemplate::ChatTemplate(std::unique_ptr<State> state) : state_(std::move(state)) {}
ChatTemplate::~ChatTemplate() = default;
ChatTemplate::ChatTemplate(ChatTemplate&&) noexcept = default;
ChatTemplate& ChatTemplate::operator=(ChatTemplate&&) noexcept = default;

Result<ChatTemplate> ChatTemplate::parse(std::string_view source) {
  if (source.size() > kTemplateBytesMax) {
    return Error{Errc::unsupported,
                 "the chat template is longer than 256 KiB" + std::string(chat::kRemedy)};
  }
  auto tokens = chat::tokenize(source);
  if (!tokens) return tokens.error();
  auto body = chat::parse_template(std::move(*tokens));
  if (!body) return body.error();
  return ChatTemplate(std::unique_ptr<State>(new State{std::move(*body)}));
}

namespace {

// Templates build control tokens from roles: '<|' + message.role + '|>'.
chat::Value role_value(const std::string& role) {
  constexpr std::string_view kRoles[] = {"system", "user", "assistant", "tool"};
  const bool known = std::ranges::find(kRoles, role) != std::end(kRoles);
  return chat::Value::marked(known ? MarkedText::own(role) : MarkedText::foreign(role));
}

}  // namespace

Result<MarkedText> ChatTemplate::render(const ChatInput& input) const {
  using chat::Value;
  std::vector<Value> messages;
  for (const ChatMessage& message : input.messages) {
    messages.push_back(
        Value::map({{"role", role_value(message.role)},
                    {"content", Value::marked(MarkedText::foreign(message.content))}}));
  }
  // Tools and documents are none, as Hugging Face passes them where there are not any.
  chat::Map globals = {{"messages", Value::list(std::move(messages))},
                       {"bos_token", Value::text(input.bos_token)},
                       {"eos_token", Value::text(input.eos_token)},
                       {"add_generation_prompt", {input.add_generation_prompt}},
                       {"tools", {chat::None{}}},
                       {"documents", {chat::None{}}}};
  return chat::Evaluator(std::move(globals)).run(state_->body);
}

Result<std::string_view> chat_template_source(const GgufFile& file) {
  if (file.find_value("tokenizer.chat_template") == nullptr) {
    return Error{Errc::unsupported, "the model has no chat template" + std::string(chat::kRemedy)};
  }
  return file.get_string("tokenizer.chat_template");
}

}  // namespace edgedraft
