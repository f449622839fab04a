#include "shared/model/chat_template.h"

#include <algorithm>

#include "shared/model/chat_template/evaluator.h"
#include "shared/model/chat_template/json_value.h"
#include "shared/model/chat_template/parser.h"

namespace edgedraft {

Result<ChatTemplate> ChatTemplate::parse(std::string_view source) {
  if (source.size() > kTemplateBytesMax) {
    return Error{Errc::unsupported,
                 "the chat template is longer than 256 KiB" + std::string(chat::kRemedy)};
  }
  auto tokens = chat::tokenize(source);
  if (!tokens) return tokens.error();
  auto body = chat::parse_template(std::move(*tokens));
  if (!body) return body.error();
  return ChatTemplate(std::make_shared<const Body>(std::move(*body)));
}

namespace {

using chat::Value;

constexpr const char* kFunctions[] = {"dict", "namespace", "raise_exception", "range",
                                      "strftime_now"};

// Templates build control tokens from roles: '<|' + message.role + '|>'.
Value role_value(const std::string& role) {
  constexpr std::string_view kRoles[] = {"system", "user", "assistant", "tool"};
  const bool known = std::ranges::find(kRoles, role) != std::end(kRoles);
  return Value::marked(known ? MarkedText::own(role) : MarkedText::foreign(role));
}

Value foreign(const std::string& text) {
  return Value::marked(MarkedText::foreign(text));
}

Result<Value> calls_value(const std::vector<ChatCall>& calls, CallArguments as) {
  std::vector<Value> list;
  for (const ChatCall& call : calls) {
    Value arguments = foreign(call.arguments);
    if (as == CallArguments::object) {
      auto object = chat::json_value(call.arguments, "the arguments of a call");
      if (!object) return object.error();
      arguments = *std::move(object);
    }
    const Value function =
        Value::map({{"name", foreign(call.name)}, {"arguments", std::move(arguments)}});
    list.push_back(Value::map(
        {{"id", foreign(call.id)}, {"type", Value::text("function")}, {"function", function}}));
  }
  return Value::list(std::move(list));
}

Result<Value> message_value(const ChatMessage& message, CallArguments as) {
  chat::Map map = {{"role", role_value(message.role)}, {"content", foreign(message.content)}};
  if (!message.calls.empty()) {
    auto calls = calls_value(message.calls, as);
    if (!calls) return calls.error();
    map.set("tool_calls", *std::move(calls));
  }
  if (!message.call_id.empty()) map.set("tool_call_id", foreign(message.call_id));
  if (!message.name.empty()) map.set("name", foreign(message.name));
  if (!message.reasoning.empty()) map.set("reasoning_content", foreign(message.reasoning));
  return Value::map(std::move(map));
}

Result<void> add_variables(std::string_view json, chat::Map& globals) {
  const auto object = chat::json_value(json, "the template's variables");
  if (!object) return object.error();
  const chat::Map* const variables = object->as_map();
  if (variables == nullptr) return usage_error("the template's variables are not a JSON object");
  for (const auto& [name, value] : variables->entries) {
    if (is_own_variable(*name.as_text())) {
      return usage_error("the template's variable '" + *name.as_text() + "' cannot be set");
    }
    globals.set(name, value);
  }
  return boost::system::in_place_value;
}

}  // namespace

bool is_own_variable(std::string_view name) {
  constexpr std::string_view kOwn[] = {"messages",  "tools",     "documents",
                                       "bos_token", "eos_token", "add_generation_prompt"};
  return std::ranges::find(kOwn, name) != std::end(kOwn) ||
         std::ranges::find(kFunctions, name) != std::end(kFunctions);
}

Result<MarkedText> ChatTemplate::render(const ChatInput& input) const {
  std::vector<Value> messages;
  for (const ChatMessage& message : input.messages) {
    auto value = message_value(message, input.call_arguments);
    if (!value) return value.error();
    messages.push_back(*std::move(value));
  }
  // Missing tools are none, as in Hugging Face.
  Value tools{chat::None{}};
  if (!input.tools.empty()) {
    auto list = chat::json_value(input.tools, "the tools");
    if (!list) return list.error();
    tools = *std::move(list);
  }
  chat::Map globals = {{"messages", Value::list(std::move(messages))},
                       {"bos_token", Value::text(input.bos_token)},
                       {"eos_token", Value::text(input.eos_token)},
                       {"add_generation_prompt", {input.add_generation_prompt}},
                       {"tools", std::move(tools)},
                       {"documents", {chat::None{}}}};
  for (const char* const name : kFunctions) globals.set(name, Value::function({.name = name}));
  if (!input.variables.empty()) {
    if (auto added = add_variables(input.variables, globals); !added) return added.error();
  }
  return chat::Evaluator(std::move(globals), input.now).run(*body_);
}

Result<std::string_view> chat_template_source(const GgufFile& file) {
  if (file.find_value("tokenizer.chat_template") == nullptr) {
    return Error{Errc::unsupported, "the model has no chat template" + std::string(chat::kRemedy)};
  }
  return file.get_string("tokenizer.chat_template");
}

}  // namespace edgedraft
