#include "client/serve/answer/completion_format.h"

#include <chrono>
#include <string_view>
#include <utility>

#include "client/json_line.h"
#include "client/version.h"
#include "shared/base/clock.h"

namespace edgedraft::client {
namespace {

using Json = nlohmann::ordered_json;

// Text in events is padded to multiples of this, on request.
constexpr std::size_t kObfuscationBytes = 32;

// `per_prompt` choices in a row belong to one prompt.
Json usage_of(const std::vector<FinishedChoice>& choices, std::uint32_t per_prompt) {
  std::uint64_t prompt = 0;
  std::uint64_t cached = 0;
  std::uint64_t completion = 0;
  std::uint64_t accepted = 0;
  std::uint64_t rejected = 0;
  for (const FinishedChoice& choice : choices) {
    completion += choice.outcome.stats.tokens;
    accepted += choice.outcome.stats.prediction.accepted;
    rejected += choice.outcome.stats.prediction.rejected();
  }
  for (std::size_t i = 0; i < choices.size(); i += per_prompt) {
    prompt += choices[i].outcome.stats.prompt_tokens;
    cached += choices[i].outcome.stats.reused_tokens;
  }
  return {{"prompt_tokens", prompt},
          {"completion_tokens", completion},
          {"total_tokens", prompt + completion},
          {"prompt_tokens_details", {{"cached_tokens", cached}}},
          {"completion_tokens_details",
           {{"accepted_prediction_tokens", accepted}, {"rejected_prediction_tokens", rejected}}}};
}

// llama-server's names.
Json timings_of(const GenerationStats& stats) {
  const double prompt_ms = milliseconds(stats.first_token_elapsed);
  const double predicted_ms = milliseconds(stats.elapsed - stats.first_token_elapsed);
  const std::uint32_t prompt_n = stats.prompt_tokens - stats.reused_tokens;
  const auto per_second = [](double count, double ms) { return ms > 0.0 ? count * 1e3 / ms : 0.0; };
  const auto per_token = [](double ms, double count) { return count > 0.0 ? ms / count : 0.0; };
  return {{"cache_n", stats.reused_tokens},
          {"prompt_n", prompt_n},
          {"prompt_ms", prompt_ms},
          {"prompt_per_token_ms", per_token(prompt_ms, prompt_n)},
          {"prompt_per_second", per_second(prompt_n, prompt_ms)},
          {"predicted_n", stats.tokens},
          {"predicted_ms", predicted_ms},
          {"predicted_per_token_ms", per_token(predicted_ms, stats.tokens)},
          {"predicted_per_second", per_second(stats.tokens, predicted_ms)},
          {"draft_n", stats.drafted},
          {"draft_n_accepted", stats.accepted}};
}

Json entry_of(const Logprob& logprob, const TokenTexts& texts) {
  const std::string_view text = texts.text(logprob.token);
  Json bytes = Json::array();
  for (const char byte : text) bytes.push_back(static_cast<unsigned char>(byte));
  return {{"token", text}, {"logprob", logprob.value}, {"bytes", std::move(bytes)}};
}

// Log probabilities in the shapes of /v1/chat/completions and /v1/completions.
Json chat_logprobs(std::span<const ToldToken> tokens, const TokenTexts& texts) {
  Json content = Json::array();
  for (const ToldToken& token : tokens) {
    Json entry = entry_of(token.told.front(), texts);
    entry["top_logprobs"] = Json::array();
    for (const Logprob& likely : std::span(token.told).subspan(1)) {
      entry["top_logprobs"].push_back(entry_of(likely, texts));
    }
    content.push_back(std::move(entry));
  }
  return {{"content", std::move(content)}, {"refusal", nullptr}};
}

Json text_logprobs(std::span<const ToldToken> tokens, const TokenTexts& texts) {
  Json json = {{"tokens", Json::array()},
               {"token_logprobs", Json::array()},
               {"top_logprobs", Json::array()},
               {"text_offset", Json::array()}};
  for (const ToldToken& token : tokens) {
    json["tokens"].push_back(texts.text(token.told.front().token));
    json["token_logprobs"].push_back(token.told.front().value);
    json["text_offset"].push_back(token.text_offset);
    Json likeliest = Json::object();
    for (const Logprob& likely : std::span(token.told).subspan(1)) {
      likeliest[std::string(texts.text(likely.token))] = likely.value;
    }
    json["top_logprobs"].push_back(std::move(likeliest));
  }
  return json;
}

std::string_view provenance_name(Provenance provenance) {
  switch (provenance) {
    case Provenance::offline:
      return "offline";
    case Provenance::private_:
      return "private";
    default:
      return "verified";
  }
}

}  // namespace

CompletionFormat::CompletionFormat(const CompletionRequest& request, AnswerFacts facts,
                                   std::uint64_t salt)
    : AnswerFormat(std::move(facts), salt),
      request_(request),
      id_(new_id(request_.kind == CompletionKind::chat ? "chatcmpl-" : "cmpl-")) {}

// `is_offline`: the device alone wrote some of it; clients see that in the fingerprint.
CompletionFormat::Json CompletionFormat::frame(bool chunk, bool is_offline) const {
  const bool chat = request_.kind == CompletionKind::chat;
  return {{"id", id_},
          {"object", !chat   ? "text_completion"
                     : chunk ? "chat.completion.chunk"
                             : "chat.completion"},
          {"created", created()},
          {"model", facts().model},
          {"system_fingerprint", std::string(kVersion) + (is_offline ? " offline" : "")},
          {"choices", Json::array()}};
}

// A chunk with `text` of a choice; null: without text.
CompletionFormat::Json CompletionFormat::chunk_of(std::uint32_t choice, const std::string* text,
                                                  bool is_offline) const {
  Json chunk = frame(true, is_offline);
  Json one = {{"index", choice}};
  if (request_.kind == CompletionKind::chat) {
    one["delta"] = Json::object();
    if (text != nullptr) one["delta"]["content"] = *text;
  } else {
    one["text"] = text != nullptr ? *text : "";
  }
  one["logprobs"] = nullptr;
  one["finish_reason"] = nullptr;
  chunk["choices"].push_back(std::move(one));
  if (request_.includes_usage) chunk["usage"] = nullptr;
  return chunk;
}

std::string CompletionFormat::event_of(Json chunk, std::size_t text_bytes) {
  if (request_.obfuscates) {
    const std::size_t rest = text_bytes % kObfuscationBytes;
    chunk["obfuscation"] = random_characters(kObfuscationBytes - rest);
  }
  return "data: " + json_line(chunk) + "\n\n";
}

std::string CompletionFormat::begin_event(std::uint32_t choice) {
  const std::string nothing;
  Json chunk = chunk_of(choice, &nothing);
  chunk["choices"][0]["delta"]["role"] = "assistant";
  return event_of(std::move(chunk), 0);
}

std::string CompletionFormat::text_event(std::uint32_t choice, const VisibleText::Piece& piece,
                                         ClientState state, std::span<const ToldToken> logprobs) {
  const bool is_offline =
      piece.provenance == Provenance::offline || piece.provenance == Provenance::private_;
  Json chunk = chunk_of(choice, piece.is_thought ? nullptr : &piece.text, is_offline);
  if (piece.is_thought) chunk["choices"][0]["delta"]["reasoning_content"] = piece.text;
  if (!logprobs.empty()) chunk["choices"][0]["logprobs"] = logprobs_json(logprobs);
  chunk["x_edgedraft"] = {{"state", to_string(state)},
                          {"provenance", provenance_name(piece.provenance)}};
  if (piece.revise_from) chunk["x_edgedraft"]["revise_from"] = *piece.revise_from;
  return event_of(std::move(chunk), piece.text.size());
}

// Null if none are returned.
CompletionFormat::Json CompletionFormat::logprobs_json(std::span<const ToldToken> tokens) const {
  if (!facts().texts) return nullptr;
  return request_.kind == CompletionKind::chat ? chat_logprobs(tokens, *facts().texts)
                                               : text_logprobs(tokens, *facts().texts);
}

CompletionFormat::Json CompletionFormat::calls_json(const std::vector<ToolCall>& calls,
                                                    bool indexed) {
  Json list = Json::array();
  for (std::size_t i = 0; i < calls.size(); ++i) {
    Json call = {
        {"id", new_id("call_")},
        {"type", "function"},
        {"function", {{"name", calls[i].call.name}, {"arguments", calls[i].call.arguments}}}};
    if (indexed) call["index"] = i;
    if (calls[i].is_restored) call["x_restored"] = true;
    list.push_back(std::move(call));
  }
  return list;
}

std::string CompletionFormat::calls_event(std::uint32_t choice,
                                          const std::vector<ToolCall>& calls) {
  Json chunk = chunk_of(choice, nullptr);
  chunk["choices"][0]["delta"]["tool_calls"] = calls_json(calls, /*indexed=*/true);
  chunk["x_edgedraft"] = {{"state", to_string(ClientState::online)},
                          {"provenance", provenance_name(Provenance::verified)}};
  return event_of(std::move(chunk), 0);
}

std::string CompletionFormat::end_event(std::uint32_t choice, const FinishedChoice& finished) {
  Json chunk = chunk_of(choice, nullptr, finished.is_offline());
  chunk["choices"][0]["finish_reason"] = finished.finish_reason();
  chunk["timings"] = timings_of(finished.outcome.stats);
  chunk["x_edgedraft"] = counters_of(finished.outcome, facts().privacy);
  return event_of(std::move(chunk), 0);
}

std::string CompletionFormat::last_events(const std::vector<FinishedChoice>& choices) {
  std::string events;
  if (request_.includes_usage) {
    Json chunk = frame(true, std::ranges::any_of(choices, &FinishedChoice::is_offline));
    chunk["usage"] = usage_of(choices, request_.choices);
    chunk["timings"] = timings_of(choices.front().outcome.stats);
    events = event_of(std::move(chunk), 0);
  }
  return events + "data: [DONE]\n\n";
}

std::string CompletionFormat::error_event(const ApiError& error) {
  return "data: " + to_json(error) + "\n\n";
}

std::string CompletionFormat::whole(const std::vector<FinishedChoice>& choices) {
  Json answer = frame(false, std::ranges::any_of(choices, &FinishedChoice::is_offline));
  for (std::size_t i = 0; i < choices.size(); ++i) {
    Json one = {{"index", i}};
    if (request_.kind == CompletionKind::chat) {
      one["message"] = {{"role", "assistant"}, {"content", choices[i].text}, {"refusal", nullptr}};
      if (!choices[i].thought.empty()) {
        one["message"]["reasoning_content"] = choices[i].thought;
      }
      if (!choices[i].calls.empty()) {
        if (choices[i].text.empty()) one["message"]["content"] = nullptr;
        one["message"]["tool_calls"] = calls_json(choices[i].calls, /*indexed=*/false);
      }
    } else {
      one["text"] = choices[i].text;
    }
    // A call has no visible text, so no log probabilities.
    one["logprobs"] = choices[i].calls.empty() ? logprobs_json(choices[i].logprobs) : Json();
    one["finish_reason"] = choices[i].finish_reason();
    one["x_edgedraft"] = counters_of(choices[i].outcome, facts().privacy);
    answer["choices"].push_back(std::move(one));
  }
  answer["usage"] = usage_of(choices, request_.choices);
  answer["timings"] = timings_of(choices.front().outcome.stats);
  return json_line(answer);
}

}  // namespace edgedraft::client
