#include "client/serve/state_api.h"

#include <chrono>
#include <cstdint>
#include <filesystem>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>
#include <utility>

#include "client/serve/dialects/rfc3339.h"
#include "client/serve/json/json_fields.h"
#include "client/serve/json/url_query.h"
#include "client/version.h"
#include "shared/net/http/metrics_text.h"

namespace edgedraft::client {
namespace {

using Json = nlohmann::ordered_json;

// Bounds the names per status query.
constexpr std::size_t kLookedUpMax = 256;

// Facts of the only model.
struct ModelEntry {
  explicit ModelEntry(const StateApi& api)
      : name(api.options.model), context_count(api.context_count) {
    std::error_code error;
    const auto& path = api.options.bundle.path();
    const auto size = std::filesystem::file_size(path, error);
    if (!error) bytes = size;
    const auto changed = std::filesystem::last_write_time(path, error);
    if (error) return;
    using std::chrono::seconds;
    const auto system = std::chrono::file_clock::to_sys(changed);
    created = std::chrono::duration_cast<seconds>(system.time_since_epoch()).count();
  }

  Json openai() const {
    Json model = {
        {"id", name}, {"object", "model"}, {"created", created}, {"owned_by", "edgedraft"}};
    // vLLM's name.
    if (context_count > 0) model["max_model_len"] = context_count;
    return model;
  }
  Json ollama_details() const {
    return {{"parent_model", ""},    {"format", "gguf"},
            {"family", "edgedraft"}, {"families", Json::array({"edgedraft"})},
            {"parameter_size", ""},  {"quantization_level", ""}};
  }

  std::string name;
  std::uint32_t context_count;
  std::uint64_t bytes = 0;
  std::int64_t created = 0;  // in seconds since 1970
};

}  // namespace

ApiResult<HttpAnswer> StateApi::models(const HttpRequest& /*request*/) {
  return json_answer({{"object", "list"}, {"data", Json::array({ModelEntry(*this).openai()})}});
}

ApiResult<HttpAnswer> StateApi::model(const HttpRequest& request) {
  const std::string_view models = "models/";
  const std::string& path = request.path;
  const std::string name =
      unescaped(std::string_view(path).substr(path.find(models) + models.size()));
  if (name == options.model) return json_answer(ModelEntry(*this).openai());
  return ApiError{
      .status = 404,
      .message = "unknown model '" + name + "'; this endpoint serves '" + options.model + "'",
      .param = "model",
      .code = "model_not_found"};
}

ApiResult<HttpAnswer> StateApi::embeddings(const HttpRequest& /*request*/) {
  return ApiError{.status = 501,
                  .message =
                      "this endpoint serves a chat model, which has no embeddings; use a "
                      "server with an embedding model",
                  .code = "unsupported_endpoint"};
}

ApiResult<HttpAnswer> StateApi::ollama_tags(const HttpRequest& /*request*/) {
  const ModelEntry model(*this);
  return json_answer({{"models", Json::array({{{"name", model.name},
                                               {"model", model.name},
                                               {"modified_at", rfc3339(model.created)},
                                               {"size", model.bytes},
                                               {"digest", ""},
                                               {"details", model.ollama_details()}}})}});
}

ApiResult<HttpAnswer> StateApi::ollama_show(const HttpRequest& request) {
  nlohmann::json body;
  if (const auto wrong = parse_object(request.body, body)) return *wrong;
  const ModelEntry model(*this);
  Json facts = {{"general.architecture", "edgedraft"}};
  if (model.context_count > 0) facts["edgedraft.context_length"] = model.context_count;
  return json_answer({{"modelfile", ""},
                      {"parameters", ""},
                      {"template", ""},
                      {"details", model.ollama_details()},
                      {"model_info", std::move(facts)},
                      {"modified_at", rfc3339(model.created)},
                      {"capabilities", Json::array({"completion", "tools"})}});
}

ApiResult<HttpAnswer> StateApi::ollama_version(const HttpRequest& /*request*/) {
  return json_answer({{"version", kVersion}});
}

ApiResult<HttpAnswer> StateApi::health(const HttpRequest& /*request*/) {
  const auto state =
      options.contact != nullptr ? options.contact->state() : ServerContact::State::unknown;
  const char* const target = state == ServerContact::State::reachable ? "reachable"
                             : state == ServerContact::State::away    ? "away"
                                                                      : "unknown";
  return json_answer({{"status", "ok"}, {"target", target}});
}

ApiResult<HttpAnswer> StateApi::metrics(const HttpRequest& /*request*/) {
  return HttpAnswer{
      .content_type = MetricsText::kContentType,
      .body = metrics_text(counters, conversations, options.memory, options.mapped_bytes)};
}

ApiResult<HttpAnswer> StateApi::props(const HttpRequest& /*request*/) {
  const CompletionDefaults& d = options.defaults;
  const char* const offline = d.offline == OfflinePolicy::wait   ? "wait"
                              : d.offline == OfflinePolicy::keep ? "keep"
                                                                 : "revise";
  return json_answer({{"build_info", kVersion},
                      {"model_alias", options.model},
                      {"model_path", options.bundle.path().filename().string()},
                      {"total_slots", options.conversations.count_max},
                      {"drafter", options.bundle.drafter_kind()},
                      {"default_generation_settings",
                       {{"max_tokens", d.tokens_max},
                        {"temperature", d.sampling.temperature},
                        {"top_k", d.sampling.top_k},
                        {"top_p", d.sampling.top_p},
                        {"min_p", d.sampling.min_p},
                        {"offline", offline}}}});
}

ApiResult<HttpAnswer> StateApi::uplink(const HttpRequest& request) {
  const auto since = number_of(query_field(request.query, "since").value_or("0"));
  if (!since) {
    return ApiError{
        .message = "'since': expected the number of a message, after which the list begins",
        .param = "since",
        .code = "invalid_value"};
  }
  Json messages = Json::array();
  if (options.uplink != nullptr) {
    for (const UplinkRecord::Message& message : options.uplink->since(*since)) {
      messages.push_back(to_json(message, options.bundle.tokenizer()));
    }
  }
  return json_answer({{"object", "list"}, {"data", std::move(messages)}});
}

ApiResult<HttpAnswer> StateApi::read_link(const HttpRequest& /*request*/) {
  return json_answer({{"plugged", options.plug == nullptr || options.plug->is_in()}});
}

ApiResult<HttpAnswer> StateApi::set_link(const HttpRequest& request) {
  nlohmann::json object;
  if (const auto wrong = parse_object(request.body, object)) return *wrong;
  JsonFields fields(object);
  bool plugged = true;
  if (fields.find("plugged") == nullptr) fields.refuse("plugged", "true or false");
  fields.read("plugged", plugged);
  if (fields.error()) return *fields.error();
  if (options.plug != nullptr) options.plug->put(plugged);
  return read_link(request);
}

ApiResult<HttpAnswer> StateApi::remove_stream(const HttpRequest& request) {
  const auto name = query_field(request.query, "conv_id");
  if (!name || !kept.remove(*name)) {
    return ApiError{
        .status = 404, .message = "unknown or expired stream", .code = "unknown_stream"};
  }
  return HttpAnswer{.status = 204, .content_type = "text/plain", .body = {}};
}

ApiResult<HttpAnswer> StateApi::look_up_streams(const HttpRequest& request) {
  nlohmann::json body;
  if (const auto wrong = parse_object(request.body, body)) return *wrong;
  JsonFields fields(body);
  const nlohmann::json* const names = fields.find("conversation_ids");
  if (names == nullptr || !names->is_array() || names->size() > kLookedUpMax) {
    fields.refuse("conversation_ids",
                  "an array of at most " + std::to_string(kLookedUpMax) + " names");
    return *fields.error();
  }
  Json streams = Json::array();
  for (const nlohmann::json& name : *names) {
    if (!name.is_string()) continue;
    const auto stream = kept.find(name.get<std::string>(), Clock::now());
    if (!stream) continue;
    streams.push_back({{"conversation_id", name},
                       {"is_done", stream->ended()},
                       {"total_bytes", stream->size()},
                       {"started_at", stream->started_ms()},
                       {"completed_at", stream->ended_ms()}});
  }
  return json_answer(streams);
}

}  // namespace edgedraft::client
