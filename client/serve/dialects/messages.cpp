// Anthropic's Messages API.

#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <utility>
#include <vector>

#include "client/json_line.h"
#include "client/serve/dialects/block_format.h"
#include "client/serve/dialects/dialect.h"

namespace edgedraft::client {
namespace {

using Json = nlohmann::ordered_json;

class MessagesFormat final : public BlockFormat {
 public:
  MessagesFormat(const CompletionRequest& request, AnswerFacts facts, std::uint64_t salt)
      : BlockFormat(std::move(facts), salt), request_(request), id_(new_id("msg_")) {}

  StreamForm stream_form() const override {
    return {.filler = "event: ping\ndata: {\"type\": \"ping\"}\n\n"};
  }
  ErrorShape error_shape() const override { return ErrorShape::anthropic; }

  std::string error_event(const ApiError& error) override {
    return "event: error\ndata: " + to_json(error, ErrorShape::anthropic) + "\n\n";
  }

  std::string whole(const std::vector<FinishedChoice>& choices) override {
    const FinishedChoice& choice = choices.front();
    Json content = Json::array();
    if (!choice.thought.empty()) content.push_back(block_of(Block::thought, choice.thought));
    if (!choice.text.empty()) content.push_back(block_of(Block::text, choice.text));
    for (const ToolCall& call : choice.calls) {
      content.push_back(call_of(call, arguments_object(call.call.arguments)));
    }
    Json message = this->message();
    message["content"] = std::move(content);
    message.update(end_of(choice));
    message["usage"]["output_tokens"] = choice.outcome.stats.tokens;
    message["x_edgedraft"] = counters_of(choice.outcome, facts().privacy);
    return json_line(message);
  }

 private:
  std::string stream_opening() override { return event("message_start", {{"message", message()}}); }
  std::string block_opening(Block block) override {
    return event("content_block_start",
                 {{"index", index_}, {"content_block", block_of(block, "")}});
  }
  std::string block_delta(Block block, const std::string& text) override {
    return delta_event(block == Block::thought
                           ? Json{{"type", "thinking_delta"}, {"thinking", text}}
                           : Json{{"type", "text_delta"}, {"text", text}});
  }
  std::string block_closing(Block /*block*/, const std::string& /*text*/) override {
    return event("content_block_stop", {{"index", index_++}});
  }
  std::string call_block(const ToolCall& call) override {
    std::string events =
        event("content_block_start",
              {{"index", index_}, {"content_block", call_of(call, Json::object())}}) +
        delta_event({{"type", "input_json_delta"}, {"partial_json", call.call.arguments}});
    return events + event("content_block_stop", {{"index", index_++}});
  }
  std::string stream_closing(const FinishedChoice& choice) override {
    return event("message_delta", {{"delta", end_of(choice)},
                                   {"usage", {{"output_tokens", choice.outcome.stats.tokens}}},
                                   {"x_edgedraft", counters_of(choice.outcome, facts().privacy)}}) +
           event("message_stop", Json::object());
  }

  static std::string event(const char* name, const Json& data) {
    Json event = {{"type", name}};
    event.update(data);
    return named_event(name, event);
  }
  std::string delta_event(Json delta) const {
    return event("content_block_delta", {{"index", index_}, {"delta", std::move(delta)}});
  }
  static Json block_of(Block block, const std::string& text) {
    if (block == Block::text) return {{"type", "text"}, {"text", text}};
    return {{"type", "thinking"}, {"thinking", text}, {"signature", ""}};
  }
  Json call_of(const ToolCall& call, Json input) {
    Json block = {{"type", "tool_use"},
                  {"id", new_id("toolu_")},
                  {"name", call.call.name},
                  {"input", std::move(input)}};
    if (call.is_restored) block["x_restored"] = true;
    return block;
  }
  Json message() const {
    return {{"id", id_},
            {"type", "message"},
            {"role", "assistant"},
            {"model", facts().model},
            {"content", Json::array()},
            {"stop_reason", nullptr},
            {"stop_sequence", nullptr},
            {"usage", {{"input_tokens", facts().prompt_tokens}, {"output_tokens", 0}}}};
  }
  // The text that stopped the answer is known if there was only one.
  Json end_of(const FinishedChoice& choice) const {
    const auto& stops = request_.constraints.stops;
    const char* const reason = !choice.calls.empty()                ? "tool_use"
                               : choice.stopped                     ? "stop_sequence"
                               : choice.finish_reason() == "length" ? "max_tokens"
                                                                    : "end_turn";
    return {{"stop_reason", reason},
            {"stop_sequence", choice.stopped && stops.size() == 1 ? Json(stops.front()) : Json()}};
  }

  const CompletionRequest& request_;
  std::string id_;
  std::size_t index_ = 0;  // of the next or open block
};

// Adds the blocks of a message: results as messages of their own, calls to the assistant's.
void add_blocks(Translation& translation, const std::string& role, const Json& content,
                const std::string& path) {
  std::string text;
  Json calls = Json::array();
  for (std::size_t i = 0; i < content.size(); ++i) {
    const Json& block = content[i];
    const std::string type = Translation::text_member(block, "type");
    const std::string at = path + "[" + std::to_string(i) + "]";
    if (type == "text") {
      text += Translation::text_member(block, "text");
    } else if (type == "tool_use" && role == "assistant") {
      const Json* const input = Translation::member(block, "input");
      calls.push_back(function_call(Translation::text_member(block, "id"),
                                    Translation::text_member(block, "name"),
                                    input == nullptr ? "{}" : json_line(*input)));
    } else if (type == "tool_result" && role == "user") {
      const Json* const result = Translation::member(block, "content");
      translation.add_message(
          {{"role", "tool"},
           {"tool_call_id", Translation::text_member(block, "tool_use_id")},
           {"content",
            result == nullptr ? "" : translation.text_of(*result, at + ".content", {"text"})}});
    } else if (type != "thinking" && type != "redacted_thinking") {
      return translation.refuse(at, "blocks of type '" + type + "' are not supported here");
    }
  }
  if (role == "user" && text.empty() && !content.empty()) return;
  Json message = {{"role", role}, {"content", std::move(text)}};
  if (!calls.empty()) message["tool_calls"] = std::move(calls);
  translation.add_message(std::move(message));
}

void add_messages(Translation& translation) {
  const Json* const list = translation.find("messages");
  if (list == nullptr || !list->is_array()) {
    return translation.refuse("messages", "expected an array of messages");
  }
  for (std::size_t i = 0; i < list->size(); ++i) {
    const Json& message = (*list)[i];
    const std::string path = "messages[" + std::to_string(i) + "]";
    const std::string role = Translation::text_member(message, "role");
    if (role != "user" && role != "assistant") {
      return translation.refuse(path + ".role", "expected 'user' or 'assistant'");
    }
    const Json* const content = Translation::member(message, "content");
    if (content != nullptr && content->is_array()) {
      add_blocks(translation, role, *content, path + ".content");
    } else if (content != nullptr && content->is_string()) {
      translation.add_message({{"role", role}, {"content", *content}});
    } else {
      translation.refuse(path + ".content", "expected a text or an array of blocks");
    }
  }
}

void add_tools(Translation& translation) {
  if (const Json* const tools = translation.find("tools")) {
    Json functions = Json::array();
    for (std::size_t i = 0; tools->is_array() && i < tools->size(); ++i) {
      const Json& tool = (*tools)[i];
      const std::string type = Translation::text_member(tool, "type");
      if (!type.empty() && type != "custom") {
        return translation.refuse("tools[" + std::to_string(i) + "]",
                                  "the server tool '" + type + "' is not supported");
      }
      functions.push_back(function_tool(Translation::text_member(tool, "name"),
                                        Translation::member(tool, "description"),
                                        Translation::member(tool, "input_schema")));
    }
    if (!functions.empty()) translation.set("tools", std::move(functions));
  }
  const Json* const choice = translation.find("tool_choice");
  if (choice == nullptr) return;
  const std::string type = Translation::text_member(*choice, "type");
  if (type == "tool") {
    translation.set("tool_choice", function_choice(Translation::text_member(*choice, "name")));
  } else if (type == "any" || type == "auto" || type == "none") {
    translation.set("tool_choice", type == "any" ? "required" : type);
  } else {
    translation.refuse("tool_choice", "expected type 'auto', 'any', 'tool' or 'none'");
  }
  const Json* const serial = Translation::member(*choice, "disable_parallel_tool_use");
  if (serial != nullptr) translation.set("parallel_tool_calls", *serial != true);
}

}  // namespace

ApiResult<Translated> translate_message(std::string_view body,
                                        const TranslationContext& /*context*/) {
  Translation translation(body);
  if (translation.error()) return *translation.error();
  if (const Json* const system = translation.find("system")) {
    translation.add_message(
        {{"role", "system"}, {"content", translation.text_of(*system, "system", {"text"})}});
  }
  add_messages(translation);
  add_tools(translation);
  const Json* const output = translation.find("output_config");
  const Json* const format = output == nullptr ? nullptr : Translation::member(*output, "format");
  if (format != nullptr) {
    const Json* const schema = Translation::member(*format, "schema");
    translation.set("response_format",
                    {{"type", "json_schema"},
                     {"json_schema", {{"schema", schema == nullptr ? Json() : *schema}}}});
  }
  translation.copy("stop_sequences", "stop");
  for (const char* const name : {"max_tokens", "temperature", "top_p", "top_k", "stream"}) {
    translation.copy(name);
  }
  return translation.finish(
      [](const CompletionRequest& request, AnswerFacts facts, std::uint64_t salt) {
        return std::make_unique<MessagesFormat>(request, std::move(facts), salt);
      });
}

}  // namespace edgedraft::client
