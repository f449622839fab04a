// OpenAI's Responses API.

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

// Facts of the request that its answer repeats or needs.
struct ResponseTerms {
  Json echoed = Json::object();
  Json messages = Json::array();   // the whole conversation up to the answer
  PastResponses* pasts = nullptr;  // null: the response is not stored
};

class ResponsesFormat final : public BlockFormat {
 public:
  ResponsesFormat(std::shared_ptr<ResponseTerms> terms, AnswerFacts facts, std::uint64_t salt)
      : BlockFormat(std::move(facts), salt), terms_(std::move(terms)), id_(new_id("resp_")) {}

  std::string error_event(const ApiError& error) override {
    Json failed = response("failed");
    failed["error"] = {{"code", error.code.empty() ? "server_error" : error.code},
                       {"message", error.message}};
    return event("response.failed", {{"response", std::move(failed)}});
  }

  std::string whole(const std::vector<FinishedChoice>& choices) override {
    const FinishedChoice& choice = choices.front();
    if (!choice.thought.empty()) items_.push_back(thought_item(choice.thought));
    if (!choice.text.empty()) items_.push_back(text_item(choice.text));
    for (const ToolCall& call : choice.calls) items_.push_back(call_item(call));
    return json_line(finished_response(choice));
  }

 private:
  std::string stream_opening() override {
    const Json begun = {{"response", response("in_progress")}};
    std::string events = event("response.created", begun);
    return events += event("response.in_progress", begun);
  }

  std::string block_opening(Block block) override {
    item_id_ = new_id(block == Block::thought ? "rs_" : "msg_");
    const bool is_thought = block == Block::thought;
    const Json item = is_thought ? Json{{"id", item_id_},
                                        {"type", "reasoning"},
                                        {"summary", Json::array()},
                                        {"content", Json::array()},
                                        {"status", "in_progress"}}
                                 : Json{{"id", item_id_},
                                        {"type", "message"},
                                        {"role", "assistant"},
                                        {"content", Json::array()},
                                        {"status", "in_progress"}};
    std::string events =
        event("response.output_item.added", {{"output_index", items_.size()}, {"item", item}});
    return events += part_event("response.content_part.added", {{"part", part(block, "")}});
  }

  std::string block_delta(Block block, const std::string& text) override {
    Json data = {{"delta", text}};
    if (block == Block::text) data["logprobs"] = Json::array();
    return part_event(text_event_name(block) + ".delta", std::move(data));
  }

  std::string block_closing(Block block, const std::string& text) override {
    Json done = {{"text", text}};
    if (block == Block::text) done["logprobs"] = Json::array();
    std::string events = part_event(text_event_name(block) + ".done", std::move(done));
    events += part_event("response.content_part.done", {{"part", part(block, text)}});
    Json item = block == Block::thought ? thought_item(text) : text_item(text);
    item["id"] = item_id_;
    return events += item_done(std::move(item));
  }

  std::string call_block(const ToolCall& call) override {
    Json item = call_item(call);
    Json begun = item;
    begun["arguments"] = "";
    begun["status"] = "in_progress";
    const auto about = [&](Json data) {
      data["item_id"] = item["id"];
      data["output_index"] = items_.size();
      return data;
    };
    std::string events = event("response.output_item.added",
                               {{"output_index", items_.size()}, {"item", std::move(begun)}});
    events +=
        event("response.function_call_arguments.delta", about({{"delta", call.call.arguments}}));
    events += event("response.function_call_arguments.done",
                    about({{"name", call.call.name}, {"arguments", call.call.arguments}}));
    return events += item_done(std::move(item));
  }

  std::string stream_closing(const FinishedChoice& choice) override {
    Json finished = finished_response(choice);
    const std::string name = "response." + finished["status"].get<std::string>();
    return event(name, {{"response", std::move(finished)}});
  }

  static std::string text_event_name(Block block) {
    return block == Block::thought ? "response.reasoning_text" : "response.output_text";
  }
  static Json part(Block block, const std::string& text) {
    if (block == Block::thought) return {{"type", "reasoning_text"}, {"text", text}};
    return {{"type", "output_text"},
            {"text", text},
            {"annotations", Json::array()},
            {"logprobs", Json::array()}};
  }

  std::string event(const std::string& name, Json data) {
    Json event = {{"type", name}, {"sequence_number", sequence_++}};
    event.update(data);
    return named_event(name, event);
  }
  std::string part_event(const std::string& name, Json data) {
    data["item_id"] = item_id_;
    data["output_index"] = items_.size();
    data["content_index"] = 0;
    return event(name, std::move(data));
  }
  std::string item_done(Json item) {
    const Json data = {{"output_index", items_.size()}, {"item", item}};
    items_.push_back(std::move(item));
    return event("response.output_item.done", data);
  }

  Json thought_item(const std::string& thought) {
    return {{"id", new_id("rs_")},
            {"type", "reasoning"},
            {"summary", Json::array()},
            {"content", Json::array({part(Block::thought, thought)})},
            {"status", "completed"}};
  }
  Json text_item(const std::string& text) {
    return {{"id", new_id("msg_")},
            {"type", "message"},
            {"role", "assistant"},
            {"content", Json::array({part(Block::text, text)})},
            {"status", "completed"}};
  }
  Json call_item(const ToolCall& call) {
    Json item = {
        {"id", new_id("fc_")},    {"type", "function_call"},          {"call_id", new_id("call_")},
        {"name", call.call.name}, {"arguments", call.call.arguments}, {"status", "completed"}};
    if (call.is_restored) item["x_restored"] = true;
    return item;
  }

  Json response(const char* status) const {
    Json response = {{"id", id_},
                     {"object", "response"},
                     {"created_at", created()},
                     {"status", status},
                     {"error", nullptr},
                     {"incomplete_details", nullptr},
                     {"instructions", nullptr},
                     {"max_output_tokens", nullptr},
                     {"metadata", Json::object()},
                     {"model", facts().model},
                     {"output", items_},
                     {"parallel_tool_calls", true},
                     {"previous_response_id", nullptr},
                     {"store", terms_->pasts != nullptr},
                     {"text", {{"format", {{"type", "text"}}}}},
                     {"tool_choice", "auto"},
                     {"tools", Json::array()},
                     {"truncation", "disabled"},
                     {"usage", nullptr}};
    response.update(terms_->echoed);
    return response;
  }

  Json finished_response(const FinishedChoice& choice) {
    const bool is_cut = choice.finish_reason() == "length";
    Json finished = response(is_cut ? "incomplete" : "completed");
    if (is_cut) finished["incomplete_details"] = {{"reason", "max_output_tokens"}};
    const GenerationStats& stats = choice.outcome.stats;
    finished["usage"] = {{"input_tokens", stats.prompt_tokens},
                         {"input_tokens_details", {{"cached_tokens", stats.reused_tokens}}},
                         {"output_tokens", stats.tokens},
                         {"output_tokens_details", {{"reasoning_tokens", 0}}},
                         {"total_tokens", stats.prompt_tokens + stats.tokens}};
    finished["x_edgedraft"] = counters_of(choice.outcome, facts().privacy);
    keep(choice);
    return finished;
  }

  // Stores the conversation with this answer.
  void keep(const FinishedChoice& choice) {
    if (terms_->pasts == nullptr) return;
    Json message = {{"role", "assistant"}, {"content", choice.text}};
    if (!choice.thought.empty()) message["reasoning_content"] = choice.thought;
    for (const Json& item : items_) {
      if (item["type"] != "function_call") continue;
      message["tool_calls"].push_back(
          function_call(item["call_id"], item["name"], item["arguments"]));
    }
    terms_->messages.push_back(std::move(message));
    terms_->pasts->put(id_, json_line(terms_->messages));
  }

  std::shared_ptr<ResponseTerms> terms_;
  std::string id_;
  std::string item_id_;         // of the open block
  Json items_ = Json::array();  // complete ones
  std::uint64_t sequence_ = 0;
};

// Adds an item of the input to the messages.
void add_input_item(Translation& translation, const Json& item, const std::string& path) {
  const std::string type = Translation::text_member(item, "type");
  Json& messages = translation.messages();
  const bool after_assistant = !messages.empty() && messages.back()["role"] == "assistant";
  if (type == "function_call") {
    // Calls belong to the assistant's message before them.
    if (!after_assistant) messages.push_back({{"role", "assistant"}, {"content", ""}});
    messages.back()["tool_calls"].push_back(function_call(
        Translation::text_member(item, "call_id"), Translation::text_member(item, "name"),
        Translation::text_member(item, "arguments")));
  } else if (type == "function_call_output") {
    const Json* const output = Translation::member(item, "output");
    if (output == nullptr) return translation.refuse(path + ".output", "expected a text");
    messages.push_back(
        {{"role", "tool"},
         {"tool_call_id", Translation::text_member(item, "call_id")},
         {"content", translation.text_of(*output, path + ".output", {"input_text"})}});
  } else if (type == "reasoning") {
    return;  // thoughts of earlier answers; templates drop them
  } else if (type.empty() || type == "message") {
    const Json* const content = Translation::member(item, "content");
    if (content == nullptr) return translation.refuse(path + ".content", "expected a text");
    messages.push_back({{"role", Translation::text_member(item, "role")},
                        {"content", translation.text_of(*content, path + ".content",
                                                        {"input_text", "output_text", "text"})}});
  } else {
    translation.refuse(path, "items of type '" + type + "' are not supported");
  }
}

void add_input(Translation& translation) {
  const Json* const input = translation.find("input");
  if (input != nullptr && input->is_string()) {
    return translation.add_message({{"role", "user"}, {"content", *input}});
  }
  if (input == nullptr || !input->is_array()) {
    return translation.refuse("input", "expected a text or an array of items");
  }
  for (std::size_t i = 0; i < input->size(); ++i) {
    add_input_item(translation, (*input)[i], "input[" + std::to_string(i) + "]");
  }
}

void add_past(Translation& translation, const PastResponses& pasts) {
  const Json* const previous = translation.find("previous_response_id");
  if (previous == nullptr) return;
  const auto messages =
      previous->is_string() ? pasts.find(previous->get<std::string>()) : std::nullopt;
  if (!messages) {
    return translation.refuse(
        "previous_response_id",
        "unknown or forgotten response; send the whole conversation as 'input'");
  }
  translation.messages() = Json::parse(*messages);
}

void add_functions(Translation& translation) {
  if (const Json* const tools = translation.find("tools")) {
    Json functions = Json::array();
    for (std::size_t i = 0; tools->is_array() && i < tools->size(); ++i) {
      const Json& tool = (*tools)[i];
      const std::string type = Translation::text_member(tool, "type");
      if (type != "function") {
        return translation.refuse(
            "tools[" + std::to_string(i) + "]",
            "tools of type '" + type + "' are not supported; only 'function' is");
      }
      functions.push_back(function_tool(
          Translation::text_member(tool, "name"), Translation::member(tool, "description"),
          Translation::member(tool, "parameters"), Translation::member(tool, "strict")));
    }
    if (!functions.empty()) translation.set("tools", std::move(functions));
  }
  const Json* const choice = translation.find("tool_choice");
  if (choice != nullptr && choice->is_object()) {
    translation.set("tool_choice", function_choice(Translation::text_member(*choice, "name")));
  } else {
    translation.copy("tool_choice");
  }
  translation.copy("parallel_tool_calls");
}

void add_format(Translation& translation) {
  const Json* const text = translation.find("text");
  const Json* const format = text == nullptr ? nullptr : Translation::member(*text, "format");
  if (format == nullptr) return;
  if (Translation::text_member(*format, "type") != "json_schema") {
    return translation.set("response_format", *format);
  }
  Json schema = *format;
  schema.erase("type");
  translation.set("response_format", {{"type", "json_schema"}, {"json_schema", schema}});
}

}  // namespace

ApiResult<Translated> translate_response(std::string_view body, const TranslationContext& context) {
  Translation translation(body);
  if (translation.error()) return *translation.error();
  translation.refuse_present({"background", "conversation", "prompt"}, "not supported");
  if (const Json* const instructions = translation.find("instructions")) {
    translation.add_message({{"role", "system"}, {"content", *instructions}});
  }
  Json instructions = std::exchange(translation.messages(), Json::array());
  add_past(translation, context.pasts);
  add_input(translation);
  auto terms = std::make_shared<ResponseTerms>();
  terms->messages = translation.messages();  // instructions apply to one response
  translation.messages().insert(translation.messages().begin(), instructions.begin(),
                                instructions.end());
  if (translation.find("store") == nullptr || *translation.find("store") != false) {
    terms->pasts = &context.pasts;
  }
  for (const char* const name :
       {"instructions", "max_output_tokens", "metadata", "parallel_tool_calls",
        "previous_response_id", "temperature", "text", "tool_choice", "tools", "top_p"}) {
    if (const Json* const value = translation.find(name)) terms->echoed[name] = *value;
  }
  add_functions(translation);
  add_format(translation);
  translation.copy("max_output_tokens", "max_completion_tokens");
  for (const char* const name : {"temperature", "top_p", "stream"}) translation.copy(name);
  return translation.finish(
      [terms](const CompletionRequest&, AnswerFacts facts, std::uint64_t salt) {
        return std::make_unique<ResponsesFormat>(terms, std::move(facts), salt);
      });
}

}  // namespace edgedraft::client
