#include "client/serve/request_privacy.h"

#include <chrono>
#include <functional>
#include <optional>
#include <utility>
#include <vector>

#include "client/serve/json_fields.h"
#include "shared/base/json_shape.h"
#include "shared/model/utf8.h"

namespace edgedraft {
namespace {

using Json = nlohmann::ordered_json;

// A text of a request; what it returns takes its place.
using Visit = std::function<std::string(const std::string& text, bool is_private)>;
// A name that cannot be changed: of a function, of a property.
using VisitName = std::function<void(const std::string& name)>;

struct Visitor {
  Visit text;
  VisitName name;

  // All texts within, numbers too, and the names of an object's members.
  void all(Json& value) const {
    if (value.is_string()) {
      value = text(value.get<std::string>(), false);
    } else if (value.is_array()) {
      for (Json& element : value) all(element);
    } else if (value.is_object()) {
      for (auto& [key, member] : value.items()) {
        name(key);
        const bool refers = key == "required" || key == "$ref" || key == "type";
        if (refers || (key == "name" && member.is_string())) {
          names(member);
        } else {
          all(member);
        }
      }
    } else if (value.is_number()) {
      const std::string told = value.dump();
      if (std::string seen = text(told, false); seen != told) value = std::move(seen);
    }
  }

  // What refers to names, if it is that: a property may be called so.
  void names(Json& value) const {
    if (value.is_string()) {
      name(value.get<std::string>());
    } else if (value.is_array()) {
      for (Json& element : value) names(element);
    } else {
      all(value);
    }
  }

  // JSON within a text.
  void arguments(Json& value) const {
    const auto written = value.get<std::string>();
    if (!has_readable_shape(written)) return all(value);
    Json inner = Json::parse(written, nullptr, /*allow_exceptions=*/false);
    if (inner.is_discarded()) return all(value);
    const std::string before = inner.dump();
    all(inner);
    // As it was written, if nothing has changed.
    if (inner.dump() != before) value = inner.dump();
  }

  void content(Json& value) const {
    if (value.is_string()) {
      value = text(value.get<std::string>(), false);
      return;
    }
    if (!value.is_array()) return;
    join_open_parts(value);
    for (Json& part : value) {
      if (!is_text(part)) continue;
      part["text"] = text(part["text"].get<std::string>(), is_marked(part));
    }
  }

  static bool is_text(const Json& part) {
    return part.is_object() && part.contains("text") && part["text"].is_string();
  }
  static bool is_marked(const Json& part) { return part.value("x_private", Json()) == true; }

  // The model reads parts as one text, and so may a value stand in two of them.
  static void join_open_parts(Json& parts) {
    Json joined = Json::array();
    bool goes_on = false;
    for (const Json& part : parts) {
      const bool is_open =
          is_text(part) && !is_marked(part) && part.value("type", Json()) == "text";
      if (is_open && goes_on) {
        Json& whole = joined.back()["text"];
        whole = whole.get<std::string>() + part["text"].get<std::string>();
      } else {
        joined.push_back(part);
      }
      goes_on = is_open;
    }
    parts = std::move(joined);
  }

  void message(Json& value) const {
    if (!value.is_object()) return;
    if (value.contains("content")) content(value["content"]);
    if (value.contains("tool_call_id")) names(value["tool_call_id"]);
    const auto calls = value.find("tool_calls");
    if (calls == value.end() || !calls->is_array()) return;
    for (Json& call : *calls) {
      if (!call.is_object() || !call.contains("function") || !call["function"].is_object())
        continue;
      Json& function = call["function"];
      if (call.contains("id")) names(call["id"]);
      if (function.contains("name")) names(function["name"]);
      if (function.contains("arguments") && function["arguments"].is_string()) {
        arguments(function["arguments"]);
      }
    }
  }

  // In the order of the conversation first, so that one that grows keeps its placeholders.
  void request(Json& body) const {
    if (body.contains("messages") && body["messages"].is_array()) {
      for (Json& one : body["messages"]) message(one);
    }
    for (const char* const field :
         {"prompt", "suffix", "stop", "tools", "response_format", "json_schema"}) {
      if (body.contains(field)) all(body[field]);
    }
    if (body.contains("grammar") && body["grammar"].is_string()) all(body["grammar"]);
  }
};

// Also which placeholders the user's own text holds, so that none of these is given out.
void learn_all(Json& request, RequestMask& mask) {
  Visitor{.text =
              [&mask](const std::string& text, bool is_private) {
                mask.learn(text, is_private);
                return text;
              },
          .name = [](const std::string&) {}}
      .request(request);
}

// Whether a name, which cannot be masked, holds private text.
bool apply_all(Json& request, RequestMask& mask) {
  bool in_name = false;
  Visitor{.text = [&mask](const std::string& text,
                          bool is_private) { return mask.apply(text, is_private); },
          .name = [&](const std::string& name) { in_name = mask.holds(name) || in_name; }}
      .request(request);
  return in_name;
}

ApiError api_error(const Error& error) {
  return {.message = error.message,
          .param = "messages",
          .code = error.code == Errc::usage ? "private_text_found" : "too_much_private_text"};
}

// A prompt of tokens, or each of several, as a text, if it is one that could be looked through.
void spell_out_tokens(Json& prompt, const Tokenizer& tokenizer) {
  if (!prompt.is_array()) return;
  std::vector<std::uint32_t> tokens;
  for (Json& token : prompt) {
    if (token.is_array()) spell_out_tokens(token, tokenizer);
    if (!token.is_number_unsigned() || token >= tokenizer.vocabulary_count()) continue;
    tokens.push_back(token.get<std::uint32_t>());
  }
  if (!tokens.empty() && tokens.size() == prompt.size()) {
    prompt = decode(tokenizer, tokens, LeadingSpace::strip);
  }
}

}  // namespace

Instant begin_of_private(Instant asked, Instant now) {
  constexpr Duration kStep = std::chrono::milliseconds(20);
  return asked + ((now - asked) / kStep + 1) * kStep;
}

ApiResult<PrivateRequest> take_out_private(std::string_view body, PrivacyGuard& guard,
                                           const Tokenizer& tokenizer) {
  PrivateRequest request{.body = std::string(body)};
  Json json = Json::parse(body, nullptr, /*allow_exceptions=*/false);
  // The reader of requests says what is wrong with it.
  if (!json.is_object()) return request;
  const nlohmann::json plain = json;
  JsonFields fields(plain);
  PrivateMode mode = guard.mode();
  if (const auto word = fields.word("private", {"mask", "local", "prefix", "off"})) {
    mode = private_mode_of(*word);
  }
  fields.read("restore_tool_arguments", request.privacy.restores_tool_arguments);
  if (fields.error()) return *fields.error();
  if (mode == PrivateMode::off) return request;

  if (json.contains("prompt")) spell_out_tokens(json["prompt"], tokenizer);
  RequestMask mask(guard, mode);
  learn_all(json, mask);
  if (const auto checked = mask.check(); !checked) return api_error(checked.error());
  if (mode != PrivateMode::mask) {
    RequestMask prefix(guard, PrivateMode::prefix);
    Json masked = json;
    learn_all(masked, prefix);
    const bool in_name = apply_all(masked, prefix);
    auto outcome = prefix.outcome();
    if (!outcome && mode == PrivateMode::prefix) return api_error(outcome.error());
    // A private name may stand before the first placeholder.
    if (outcome && outcome->placeholders && !in_name) {
      request.masked = {.body = masked.dump(), .placeholders = std::move(outcome->placeholders)};
    }
  }
  // Of one that stays here all else is made as it is.
  RequestMask local(guard, PrivateMode::local);
  RequestMask& last = mode == PrivateMode::mask ? mask : local;
  const bool in_name = apply_all(json, last);
  auto outcome = last.outcome();
  if (!outcome) return api_error(outcome.error());
  request.privacy.is_local = outcome->is_local;
  request.privacy.sends_open = outcome->is_local && mode == PrivateMode::prefix;
  request.privacy.placeholders = std::move(outcome->placeholders);
  if (in_name && !request.privacy.is_local) {
    return ApiError{.message =
                        "the name of a function or property holds private text, and cannot be "
                        "masked: ask with \"private\": \"local\" or \"off\"",
                    .param = "tools",
                    .code = "private_name"};
  }
  if (request.privacy.found()) request.body = json.dump();
  return request;
}

}  // namespace edgedraft
