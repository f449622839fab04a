#include "client/serve/api_service.h"

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "client/serve/json/json_fields.h"
#include "client/serve/json/url_query.h"
#include "client/version.h"
#include "shared/net/http/metrics_text.h"

// Endpoints that answer at once, without the desk's threads or an engine.

namespace edgedraft::client {
namespace {

using Json = nlohmann::ordered_json;

// Bounds the names per status query.
constexpr std::size_t kLookedUpMax = 256;

Json model_object(const std::string& name) {
  return {{"id", name}, {"object", "model"}, {"created", 0}, {"owned_by", "edgedraft"}};
}

}  // namespace

void ApiService::models(Call call) {
  call.answer(
      json_answer({{"object", "list"}, {"data", Json::array({model_object(options_.model)})}}));
}

void ApiService::model(Call call) {
  const std::string_view models = "models/";
  const std::string& path = call.request.path;
  const std::string name =
      unescaped(std::string_view(path).substr(path.find(models) + models.size()));
  if (name == options_.model) return call.answer(json_answer(model_object(name)));
  call.fail(
      {.status = 404,
       .message = "unknown model '" + name + "'; this endpoint serves '" + options_.model + "'",
       .param = "model",
       .code = "model_not_found"});
}

void ApiService::health(Call call) {
  const auto state =
      options_.contact != nullptr ? options_.contact->state() : ServerContact::State::unknown;
  const char* const target = state == ServerContact::State::reachable ? "reachable"
                             : state == ServerContact::State::away    ? "away"
                                                                      : "unknown";
  call.answer(json_answer({{"status", "ok"}, {"target", target}}));
}

void ApiService::metrics(Call call) {
  call.answer(
      {.content_type = MetricsText::kContentType,
       .body = metrics_text(counters_, conversations_, options_.memory, options_.mapped_bytes)});
}

void ApiService::props(Call call) {
  const CompletionDefaults& d = options_.defaults;
  const char* const offline = d.offline == OfflinePolicy::wait   ? "wait"
                              : d.offline == OfflinePolicy::keep ? "keep"
                                                                 : "revise";
  call.answer(json_answer({{"build_info", kVersion},
                           {"model_alias", options_.model},
                           {"model_path", options_.bundle.path().filename().string()},
                           {"total_slots", options_.conversations.count_max},
                           {"drafter", options_.bundle.drafter_kind()},
                           {"default_generation_settings",
                            {{"max_tokens", d.tokens_max},
                             {"temperature", d.sampling.temperature},
                             {"top_k", d.sampling.top_k},
                             {"top_p", d.sampling.top_p},
                             {"min_p", d.sampling.min_p},
                             {"offline", offline}}}}));
}

void ApiService::page_file(Call call) {
  if (options_.store == nullptr) {
    return call.fail({.status = 404, .message = "the page of this endpoint is off (--page off)"});
  }
  call.answer(PageApi::file(call.request.path));
}

void ApiService::list_conversations(Call call) {
  answer(std::move(call), page_.list());
}

void ApiService::read_conversation(Call call) {
  auto result = page_.read(query_field(call.request.query, "id").value_or(""));
  answer(std::move(call), std::move(result));
}

void ApiService::remove_conversation(Call call) {
  auto result = page_.remove(query_field(call.request.query, "id").value_or(""));
  answer(std::move(call), std::move(result));
}

void ApiService::uplink(Call call) {
  const auto since = number_of(query_field(call.request.query, "since").value_or("0"));
  if (!since) {
    return call.fail(
        {.message = "'since': expected the number of a message, after which the list begins",
         .param = "since",
         .code = "invalid_value"});
  }
  Json messages = Json::array();
  if (options_.uplink != nullptr) {
    for (const UplinkRecord::Message& message : options_.uplink->since(*since)) {
      messages.push_back(to_json(message, options_.bundle.tokenizer()));
    }
  }
  call.answer(json_answer({{"object", "list"}, {"data", std::move(messages)}}));
}

void ApiService::read_link(Call call) {
  call.answer(json_answer({{"plugged", options_.plug == nullptr || options_.plug->is_in()}}));
}

void ApiService::set_link(Call call) {
  nlohmann::json object;
  if (const auto wrong = parse_object(call.request.body, object)) return call.fail(*wrong);
  JsonFields fields(object);
  bool plugged = true;
  if (fields.find("plugged") == nullptr) fields.refuse("plugged", "true or false");
  fields.read("plugged", plugged);
  if (fields.error()) return call.fail(*fields.error());
  if (options_.plug != nullptr) options_.plug->put(plugged);
  read_link(std::move(call));
}

void ApiService::read_stream(Call call) {
  const auto name = query_field(call.request.query, "conv_id");
  const std::string from_text = query_field(call.request.query, "from").value_or("0");
  const auto stream = name ? kept_.find(*name, Clock::now()) : nullptr;
  if (!stream) {
    return call.fail(
        {.status = 404, .message = "unknown or expired stream", .code = "unknown_stream"});
  }
  const auto from = number_of(from_text);
  if (!from || *from > stream->size()) {
    return call.fail({.message = "'from' is '" + from_text +
                                 "'; expected a number of bytes from 0 to " +
                                 std::to_string(stream->size()),
                      .param = "from",
                      .code = "invalid_value"});
  }
  call.headers.emplace_back(kConversationHeader, *name);
  stream->attach(std::move(call.reply), call.headers, *from);
}

void ApiService::remove_stream(Call call) {
  const auto name = query_field(call.request.query, "conv_id");
  if (!name || !kept_.remove(*name)) {
    return call.fail(
        {.status = 404, .message = "unknown or expired stream", .code = "unknown_stream"});
  }
  call.answer({.status = 204, .content_type = "text/plain", .body = {}});
}

void ApiService::look_up_streams(Call call) {
  nlohmann::json body;
  if (const auto wrong = parse_object(call.request.body, body)) return call.fail(*wrong);
  JsonFields fields(body);
  const nlohmann::json* const names = fields.find("conversation_ids");
  if (names == nullptr || !names->is_array() || names->size() > kLookedUpMax) {
    fields.refuse("conversation_ids",
                  "an array of at most " + std::to_string(kLookedUpMax) + " names");
    return call.fail(*fields.error());
  }
  Json streams = Json::array();
  for (const nlohmann::json& name : *names) {
    if (!name.is_string()) continue;
    const auto stream = kept_.find(name.get<std::string>(), Clock::now());
    if (!stream) continue;
    streams.push_back({{"conversation_id", name},
                       {"is_done", stream->ended()},
                       {"total_bytes", stream->size()},
                       {"started_at", stream->started_ms()},
                       {"completed_at", stream->ended_ms()}});
  }
  call.answer(json_answer(streams));
}

}  // namespace edgedraft::client
