#include "client/serve/request/request_privacy.h"

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <optional>
#include <span>
#include <utility>
#include <vector>

#include "client/serve/json/json_fields.h"
#include "client/serve/json/json_tokens.h"
#include "shared/base/json_shape.h"
#include "shared/model/utf8.h"
#include "shared/types/constraints.h"

namespace edgedraft::client {
namespace {

using Json = nlohmann::ordered_json;

// Visits all texts of a request: to learn private values and reserve placeholders that occur in the
// user's own text, or to replace private values.
class Visitor {
 public:
  enum class Task : std::uint8_t { learn, apply };
  Visitor(RequestMask& mask, Task task) : mask_(mask), learns_(task == Task::learn) {}

  // True if a name, which cannot be masked, holds private text.
  bool in_name() const { return in_name_; }

  // In conversation order first, so that a growing conversation keeps its placeholders.
  void request(Json& body) {
    if (body.contains("messages") && body["messages"].is_array()) {
      for (Json& one : body["messages"]) message(one);
    }
    for (const char* const field :
         {"prompt", "suffix", "tools", "response_format", "json_schema", "chat_template_kwargs"}) {
      if (body.contains(field)) all(body[field]);
    }
    const auto prediction = body.find("prediction");
    if (prediction != body.end() && prediction->is_object() && prediction->contains("content")) {
      content((*prediction)["content"], Writer::user, false);
    }
    // More stops are refused.
    if (body.contains("stop") && body["stop"].size() <= kStopsMax) all(body["stop"]);
    if (body.contains("grammar") && body["grammar"].is_string()) all(body["grammar"]);
  }

 private:
  // Returns the replacement of a text, which is the same text while learning.
  std::string text(const std::string& text, bool is_private, Writer writer) {
    if (!learns_) return mask_.apply(text, is_private);
    mask_.learn(text, is_private, writer);
    return text;
  }
  // Returns the replacements of the parts of a text.
  std::vector<std::string> texts(std::span<const RequestPart> parts, Writer writer) {
    if (!learns_) return mask_.apply(parts);
    mask_.learn(parts, writer);
    std::vector<std::string> same;
    for (const RequestPart& part : parts) same.emplace_back(part.text);
    return same;
  }
  // Returns the replacement of a key that nothing refers to.
  std::string key(const std::string& key) {
    if (!learns_) return mask_.apply(key, false);
    mask_.learn_name(key, Writer::target);
    return key;
  }
  // Takes a name that cannot be changed, such as a property's.
  void name(const std::string& name) {
    if (!learns_) return id(name);
    mask_.learn_name(name);
  }
  // Takes an id of a call or function. Ids look like keys, so they are not learned.
  void id(const std::string& id) {
    if (!learns_) in_name_ = mask_.holds(id) || in_name_;
  }
  // True if private text remains in joined results of the functions above.
  bool still_holds(const std::string& text) { return !learns_ && mask_.still_holds(text); }

  // Visits all strings, numbers and member names in it.
  void all(Json& value) {
    each(value);
    if (value.is_structured()) join_split(value);
  }

  void each(Json& value) {
    if (value.is_object()) {
      for (auto& [key, member] : value.items()) {
        name(key);
        refers(key, member) ? names(member) : each(member);
      }
    } else if (value.is_array()) {
      for (Json& element : value) each(element);
    } else if (is_leaf(value)) {
      const std::string told = string_of(value);
      if (std::string seen = text(told, false, Writer::user); seen != told) value = std::move(seen);
    }
  }

  static bool refers(const std::string& key, const Json& member) {
    return key == "required" || key == "$ref" || key == "type" ||
           (key == "name" && member.is_string());
  }
  static bool is_leaf(const Json& value) { return value.is_string() || value.is_number(); }

  // Calls a function with each member that refers to no name.
  template <class Visit>
  static void for_members(Json& value, Visit visit) {
    for (auto& [key, member] : value.items()) {
      if (!value.is_object() || !refers(key, member)) visit(member);
    }
  }
  static void append_leaves(Json& value, std::string& joined) {
    if (is_leaf(value)) joined += string_of(value) + " ";
    if (value.is_structured()) {
      for_members(value, [&joined](Json& member) { append_leaves(member, joined); });
    }
  }

  // A value may be split over several texts. Then all texts of the smallest part with the whole
  // value are private.
  void join_split(Json& value) {
    const auto is_split = [&] {
      std::string joined;
      append_leaves(value, joined);
      return still_holds(joined);
    };
    if (!is_split()) return;
    for_members(value, [this](Json& member) {
      if (member.is_structured()) join_split(member);
    });
    if (is_split()) hide(value);
  }
  void hide(Json& value) {
    if (is_leaf(value)) value = text(string_of(value), true, Writer::user);
    if (value.is_structured()) for_members(value, [this](Json& member) { hide(member); });
  }

  static std::string string_of(const Json& value) {
    return value.is_string() ? value.get<std::string>() : value.dump();
  }

  // Visits references to names; a property may have the same key.
  void names(Json& value) {
    if (value.is_string()) {
      name(value.get<std::string>());
    } else if (value.is_array()) {
      for (Json& element : value) names(element);
    } else {
      all(value);
    }
  }

  void identifies(Json& value) {
    if (value.is_string()) {
      id(value.get<std::string>());
    } else {
      all(value);
    }
  }

  // JSON within a string: names in it refer to nothing, and its text is sent as written.
  void arguments(Json& value, bool is_private) {
    const auto written = value.get<std::string>();
    if (is_private) {
      const std::string seen = text(written, true, Writer::target);
      if (seen != written) value = Json({{"private", seen}}).dump();
      return;
    }
    if (!has_readable_shape(written) || !Json::accept(written)) {
      value = text(written, false, Writer::target);
      return;
    }
    std::string seen;
    std::string values;
    std::size_t at = 0;
    for (const JsonToken& token : json_tokens(written)) {
      seen.append(written, at, token.begin - at);
      const std::string part =
          argument(token.kind, written.substr(token.begin, token.end - token.begin));
      seen += part;
      if (token.kind != JsonToken::Kind::key) values += string_of(Json::parse(part)) + " ";
      at = token.end;
    }
    seen.append(written, at);
    // A value may span several strings, or be inside escapes.
    if (still_holds(seen) || still_holds(values))
      seen = Json({{"private", text(written, true, Writer::target)}}).dump();
    value = std::move(seen);
  }

  // Returns the replacement of one token.
  std::string argument(JsonToken::Kind kind, const std::string& written) {
    const Json value = Json::parse(written);
    if (kind != JsonToken::Kind::number) {
      const auto told = value.get<std::string>();
      const std::string seen =
          kind == JsonToken::Kind::key ? key(told) : text(told, false, Writer::target);
      return seen == told ? written : Json(seen).dump();
    }
    std::string seen = text(written, false, Writer::target);
    if (seen != written) return Json(seen).dump();
    // A template may write the number in another form.
    const std::string told = value.dump();
    if (told == written) return written;
    seen = text(told, false, Writer::target);
    return seen == told ? written : Json(seen).dump();
  }

  static Writer writer_of(const Json& message) {
    const Json role = message.value("role", Json());
    return role == "assistant" ? Writer::target : role == "tool" ? Writer::function : Writer::user;
  }

  void content(Json& value, Writer writer, bool is_private) {
    if (value.is_string()) {
      value = text(value.get<std::string>(), is_private, writer);
      return;
    }
    if (!value.is_array()) return;
    join_open_parts(value);
    for (auto at = value.begin(); at != value.end();) {
      at = std::find_if(at, value.end(), is_text);
      const auto end = std::find_if_not(at, value.end(), is_text);
      std::vector<RequestPart> parts;
      for (auto part = at; part != end; ++part) {
        parts.push_back({.text = (*part)["text"].get_ref<const std::string&>(),
                         .is_private = is_private || is_marked(*part)});
      }
      if (parts.empty()) continue;
      for (std::string& seen : texts(parts, writer)) (*at++)["text"] = std::move(seen);
    }
  }

  static bool is_text(const Json& part) {
    return part.is_object() && part.contains("text") && part["text"].is_string();
  }
  // For a part or a message. Requires  error_of_marks() found nothing
  static bool is_marked(const Json& value) { return value.value("x_private", Json()) == true; }

  // The model reads parts as one text, so a value may span two of them.
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

  void message(Json& value) {
    if (!value.is_object()) return;
    const bool is_private = is_marked(value);
    if (value.contains("content")) content(value["content"], writer_of(value), is_private);
    if (value.contains("reasoning_content")) {
      content(value["reasoning_content"], writer_of(value), is_private);
    }
    if (value.contains("tool_call_id")) identifies(value["tool_call_id"]);
    const auto calls = value.find("tool_calls");
    if (calls == value.end() || !calls->is_array()) return;
    for (Json& call : *calls) {
      if (!call.is_object() || !call.contains("function") || !call["function"].is_object())
        continue;
      Json& function = call["function"];
      if (call.contains("id")) identifies(call["id"]);
      if (function.contains("name")) identifies(function["name"]);
      if (function.contains("arguments") && function["arguments"].is_string()) {
        arguments(function["arguments"], is_private);
      }
    }
  }

  RequestMask& mask_;
  bool learns_;
  bool in_name_ = false;
};

// Returns true if a name holds private text.
bool apply_all(Json& request, RequestMask& mask) {
  Visitor visitor(mask, Visitor::Task::apply);
  visitor.request(request);
  return visitor.in_name();
}

ApiError api_error(const Error& error) {
  return {.message = error.message,
          .param = "messages",
          .code = error.code == Errc::usage ? "private_text_found" : "too_much_private_text"};
}

// Path of a mark in an ignored place: anywhere but in messages and parts of their content.
std::optional<std::string> misplaced_mark(const nlohmann::json& value, std::string_view within) {
  const auto below = [](const std::string& path, const auto& member, std::string_view what) {
    auto found = misplaced_mark(member, what);
    if (found) found->insert(0, path);
    return found;
  };
  if (value.is_array()) {
    const std::string_view what = within == "messages"  ? "message"
                                  : within == "content" ? "part"
                                                        : "";
    for (std::size_t i = 0; i < value.size(); ++i) {
      if (!value[i].is_structured()) continue;
      if (auto found = below("[" + std::to_string(i) + "]", value[i], what)) return found;
    }
  } else if (value.is_object()) {
    const bool may_be_marked = within == "message" || within == "part";
    for (const auto& [key, member] : value.items()) {
      if (key == "x_private" && !may_be_marked) return ".x_private";
      const bool goes_on =
          (within == "request" && key == "messages") || (within == "message" && key == "content");
      if (auto found = below("." + key, member, goes_on ? std::string_view(key) : "")) return found;
    }
  }
  return std::nullopt;
}

// A mark of another type, or elsewhere, would expose text that its sender considers private.
std::optional<ApiError> error_of_marks(const nlohmann::json& request) {
  if (const auto path = misplaced_mark(request, "request")) {
    return ApiError{.message = "'" + path->substr(1) +
                               "': only messages and parts of their content can be marked private",
                    .param = path->substr(1),
                    .code = "unsupported_value"};
  }
  std::optional<ApiError> error;
  const auto check = [&error](const nlohmann::json& marked, const std::string& path) {
    if (error || !marked.is_object()) return;
    JsonFields fields(marked, path + ".");
    bool is_private = false;
    fields.read("x_private", is_private);
    error = fields.error();
  };
  const auto messages = request.find("messages");
  if (messages == request.end() || !messages->is_array()) return std::nullopt;
  for (std::size_t i = 0; i < messages->size(); ++i) {
    const nlohmann::json& message = (*messages)[i];
    const std::string path = "messages[" + std::to_string(i) + "]";
    check(message, path);
    if (!message.is_object() || !message.contains("content")) continue;
    const nlohmann::json& content = message["content"];
    for (std::size_t j = 0; content.is_array() && j < content.size(); ++j) {
      check(content[j], path + ".content[" + std::to_string(j) + "]");
    }
  }
  return error;
}

// Replaces token prompts by their texts, if these can be scanned.
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

// True if biases cover all tokens of a value.
bool spells_private_text(const Json& biases, const PrivateVault& vault,
                         const Tokenizer& tokenizer) {
  if (!biases.is_object()) return false;
  std::vector<std::string> tokens;
  for (const auto& [name, bias] : biases.items()) {
    std::uint32_t token = 0;
    const auto parsed = std::from_chars(name.data(), name.data() + name.size(), token);
    if (parsed.ec != std::errc() || token >= tokenizer.vocabulary_count()) continue;
    tokens.push_back(tokenizer.token_bytes(token));
  }
  return vault.is_spelled_by(tokens);
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
  // parse_completion() reports the error.
  if (!json.is_object()) return request;
  const nlohmann::json plain = json;
  JsonFields fields(plain);
  PrivateMode mode = guard.mode();
  if (const auto word = fields.word("private", {"mask", "local", "prefix", "off"})) {
    mode = private_mode_of(*word);
  }
  fields.read("restore_tool_arguments", request.privacy.restores_tool_arguments);
  fields.take(error_of_marks(plain));
  if (fields.error()) return *fields.error();
  if (mode == PrivateMode::off) return request;

  if (json.contains("prompt")) spell_out_tokens(json["prompt"], tokenizer);
  VaultTransaction learned(guard.vault());
  RequestMask mask(guard, mode);
  Visitor(mask, Visitor::Task::learn).request(json);
  if (const auto checked = mask.check(); !checked) return api_error(checked.error());
  if (mode != PrivateMode::mask) {
    RequestMask prefix(mask, PrivateMode::prefix);
    Json masked = json;
    const bool in_name = apply_all(masked, prefix);
    auto outcome = prefix.outcome();
    if (!outcome && mode == PrivateMode::prefix) return api_error(outcome.error());
    // A private name may precede the first placeholder.
    if (outcome && outcome->placeholders && !in_name) {
      request.masked = {.body = masked.dump(), .placeholders = std::move(outcome->placeholders)};
    }
  }
  // A request that stays on the device is otherwise unchanged.
  RequestMask local(mask, PrivateMode::local);
  RequestMask& last = mode == PrivateMode::mask ? mask : local;
  const bool in_name = apply_all(json, last);
  auto outcome = last.outcome();
  if (!outcome) return api_error(outcome.error());
  request.privacy.is_local = outcome->is_local;
  request.privacy.sends_open = outcome->is_local && mode == PrivateMode::prefix;
  request.privacy.placeholders = std::move(outcome->placeholders);
  if (in_name && !request.privacy.is_local) {
    return ApiError{.message =
                        "the name of a function or property holds private text, which cannot be "
                        "masked: set \"private\" to \"local\" or \"off\"",
                    .param = "tools",
                    .code = "private_name"};
  }
  if (!request.privacy.is_local &&
      spells_private_text(json.value("logit_bias", Json()), guard.vault(), tokenizer)) {
    if (mode == PrivateMode::mask) {
      return ApiError{.message =
                          "'logit_bias': its tokens spell private text, which cannot be masked: "
                          "remove them, or set \"private\" to \"local\" or \"off\"",
                      .param = "logit_bias",
                      .code = "private_name"};
    }
    request.privacy.is_local = true;
  }
  if (request.privacy.found()) request.body = json.dump();
  learned.keep();
  return request;
}

}  // namespace edgedraft::client
