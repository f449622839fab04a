// Ollama's /api/chat and /api/generate.

#include <chrono>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "client/json_line.h"
#include "client/serve/dialects/dialect.h"
#include "client/serve/dialects/rfc3339.h"
#include "shared/base/clock.h"

namespace edgedraft::client {
namespace {

using Json = nlohmann::ordered_json;

// Lines of JSON, one object each.
class OllamaFormat final : public AnswerFormat {
 public:
  OllamaFormat(bool is_chat, AnswerFacts facts, std::uint64_t salt)
      : AnswerFormat(std::move(facts), salt), is_chat_(is_chat) {}

  StreamForm stream_form() const override {
    return {.content_type = "application/x-ndjson", .filler = ""};
  }
  ErrorShape error_shape() const override { return ErrorShape::ollama; }

  std::string begin_event(std::uint32_t /*choice*/) override { return {}; }
  std::string text_event(std::uint32_t /*choice*/, const VisibleText::Piece& piece,
                         ClientState /*state*/, std::span<const ToldToken> /*logprobs*/) override {
    if (piece.text.empty()) return {};
    return line(piece.is_thought ? part("", piece.text, {}) : part(piece.text, "", {}), false);
  }
  std::string calls_event(std::uint32_t /*choice*/, const std::vector<ToolCall>& calls) override {
    return line(part("", "", calls), false);
  }
  std::string end_event(std::uint32_t /*choice*/, const FinishedChoice& /*finished*/) override {
    return {};
  }
  std::string last_events(const std::vector<FinishedChoice>& choices) override {
    return line(end_of(part("", "", {}), choices.front()), true);
  }
  std::string error_event(const ApiError& error) override {
    return to_json(error, ErrorShape::ollama) + "\n";
  }
  std::string whole(const std::vector<FinishedChoice>& choices) override {
    const FinishedChoice& choice = choices.front();
    return line(end_of(part(choice.text, choice.thought, choice.calls), choice), true);
  }

 private:
  std::string line(const Json& fields, bool done) const {
    Json object = {{"model", facts().model}, {"created_at", rfc3339(created())}};
    object.update(fields);
    object["done"] = done;
    return json_line(object) + "\n";
  }
  Json part(const std::string& text, const std::string& thought,
            const std::vector<ToolCall>& calls) const {
    if (!is_chat_) {
      Json fields = {{"response", text}};
      if (!thought.empty()) fields["thinking"] = thought;
      return fields;
    }
    Json message = {{"role", "assistant"}, {"content", text}};
    if (!thought.empty()) message["thinking"] = thought;
    for (const ToolCall& call : calls) {
      message["tool_calls"].push_back(
          {{"function",
            {{"name", call.call.name}, {"arguments", arguments_object(call.call.arguments)}}}});
    }
    return {{"message", std::move(message)}};
  }
  Json end_of(Json fields, const FinishedChoice& choice) const {
    const GenerationStats& stats = choice.outcome.stats;
    const auto nanoseconds = [](Duration time) {
      return std::chrono::duration_cast<std::chrono::nanoseconds>(time).count();
    };
    fields.update({{"done_reason", choice.finish_reason() == "length" ? "length" : "stop"},
                   {"total_duration", nanoseconds(stats.elapsed)},
                   {"load_duration", 0},
                   {"prompt_eval_count", stats.prompt_tokens},
                   {"prompt_eval_duration", nanoseconds(stats.first_token_elapsed)},
                   {"eval_count", stats.tokens},
                   {"eval_duration", nanoseconds(stats.elapsed - stats.first_token_elapsed)},
                   {"x_edgedraft", counters_of(choice.outcome, facts().privacy)}});
    return fields;
  }

  bool is_chat_;
};

FormatMaker ollama_format(bool is_chat) {
  return [is_chat](const CompletionRequest&, AnswerFacts facts, std::uint64_t salt) {
    return std::make_unique<OllamaFormat>(is_chat, std::move(facts), salt);
  };
}

void add_ollama_options(Translation& translation) {
  translation.set("stream",
                  translation.find("stream") == nullptr ? Json(true) : *translation.find("stream"));
  if (const Json* const format = translation.find("format"); format != nullptr && *format != "") {
    translation.set("response_format",
                    *format == "json"
                        ? Json{{"type", "json_object"}}
                        : Json{{"type", "json_schema"}, {"json_schema", {{"schema", *format}}}});
  }
  const Json* const options = translation.find("options");
  if (options == nullptr) return;
  if (!options->is_object()) return translation.refuse("options", "expected an object");
  for (const char* const name : {"temperature", "top_k", "top_p", "min_p", "seed", "stop",
                                 "presence_penalty", "frequency_penalty"}) {
    if (const Json* const value = Translation::member(*options, name))
      translation.set(name, *value);
  }
  // -1 and -2: no limit
  const Json* const count = Translation::member(*options, "num_predict");
  if (count != nullptr && *count != -1 && *count != -2) translation.set("max_tokens", *count);
}

// Clients send a request without text to load a model.
ApiResult<Translated> loaded(const TranslationContext& context, bool is_chat) {
  Json answer = {{"model", context.model}, {"created_at", rfc3339(0)}};
  if (is_chat) {
    answer["message"] = {{"role", "assistant"}, {"content", ""}};
  } else {
    answer["response"] = "";
  }
  answer.update({{"done", true}, {"done_reason", "load"}});
  HttpAnswer at_once = json_answer(answer);
  at_once.body += "\n";
  return Translated{.body = {}, .at_once = std::move(at_once)};
}

// Ollama's results name their function or stand in the order of the calls; they have no ids.
class CallIds {
 public:
  Json calls_of(const Json& list) {
    Json calls = Json::array();
    for (const Json& one : list) {
      const Json* const function = Translation::member(one, "function");
      const Json none = Json::object();
      const Json& call = function == nullptr ? none : *function;
      const Json* const arguments = Translation::member(call, "arguments");
      std::string id = "call_" + std::to_string(next_++);
      calls.push_back(function_call(id, Translation::text_member(call, "name"),
                                    arguments == nullptr ? "{}" : json_line(*arguments)));
      open_.push_back(std::move(id));
    }
    return calls;
  }
  std::string result_id() {
    if (open_.empty()) return "";
    std::string id = std::move(open_.front());
    open_.erase(open_.begin());
    return id;
  }

 private:
  std::size_t next_ = 0;
  std::vector<std::string> open_;
};

void add_ollama_messages(Translation& translation, const Json& list) {
  CallIds ids;
  for (std::size_t i = 0; i < list.size(); ++i) {
    const Json& message = list[i];
    const std::string path = "messages[" + std::to_string(i) + "]";
    if (!message.is_object()) return translation.refuse(path, "expected an object");
    if (const Json* const images = Translation::member(message, "images");
        images != nullptr && !images->empty()) {
      return translation.refuse(path + ".images", "images are not supported");
    }
    const std::string role = Translation::text_member(message, "role");
    Json read = {{"role", role}, {"content", Translation::text_member(message, "content")}};
    const Json* const calls = Translation::member(message, "tool_calls");
    if (calls != nullptr && calls->is_array() && !calls->empty()) {
      read["tool_calls"] = ids.calls_of(*calls);
    }
    if (role == "tool") read["tool_call_id"] = ids.result_id();
    const std::string thought = Translation::text_member(message, "thinking");
    if (!thought.empty()) read["reasoning_content"] = thought;
    translation.add_message(std::move(read));
  }
}

}  // namespace

ApiResult<Translated> translate_ollama_chat(std::string_view body,
                                            const TranslationContext& context) {
  Translation translation(body);
  if (translation.error()) return *translation.error();
  const Json* const list = translation.find("messages");
  if (list == nullptr || (list->is_array() && list->empty())) return loaded(context, true);
  if (!list->is_array()) {
    translation.refuse("messages", "expected an array of messages");
    return *translation.error();
  }
  add_ollama_messages(translation, *list);
  const Json* const tools = translation.find("tools");
  if (tools != nullptr && !tools->empty()) translation.copy("tools");
  add_ollama_options(translation);
  return translation.finish(ollama_format(true));
}

ApiResult<Translated> translate_ollama_generate(std::string_view body,
                                                const TranslationContext& context) {
  Translation translation(body);
  if (translation.error()) return *translation.error();
  translation.refuse_present({"suffix", "images", "template", "context"}, "not supported");
  const Json* const prompt = translation.find("prompt");
  if (translation.error()) return *translation.error();
  if (prompt == nullptr || *prompt == "") return loaded(context, false);
  add_ollama_options(translation);
  if (translation.find("raw") != nullptr && *translation.find("raw") == true) {
    translation.copy("prompt");
    return translation.finish(ollama_format(false), CompletionKind::text);
  }
  if (const Json* const system = translation.find("system")) {
    translation.add_message({{"role", "system"}, {"content", *system}});
  }
  translation.add_message({{"role", "user"}, {"content", *prompt}});
  return translation.finish(ollama_format(false));
}

}  // namespace edgedraft::client
