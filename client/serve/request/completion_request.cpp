#include "client/serve/request/completion_request.h"

#include <algorithm>
#include <chrono>
#include <limits>
#include <map>
#include <optional>
#include <utility>

#include "client/serve/json/json_fields.h"
#include "client/serve/json/url_query.h"
#include "client/serve/schema/schema_grammar.h"
#include "shared/base/ascii.h"
#include "shared/base/random.h"
#include "shared/protocol/limits.h"
#include "shared/types/logprob.h"

namespace edgedraft::client {
namespace {

using nlohmann::json;
using nlohmann::ordered_json;

// Wait of an answer that only the target may write; beyond it, the request fails.
constexpr Duration kTargetAloneWait = std::chrono::seconds(30);

// Returns a member of an object; null counts as absent.
ordered_json member_of(const ordered_json& object, const char* name, ordered_json otherwise = {}) {
  ordered_json member = object.value(name, ordered_json());
  return member.is_null() ? std::move(otherwise) : member;
}

ordered_json any_object() {
  return {{"type", "object"}};
}

// Reads a string, or parts of one.
std::optional<std::string> content_of(const json& message, JsonFields& fields) {
  const json* const content = fields.find("content");
  if (content == nullptr) {
    // An assistant's message with calls may have no content.
    if (message.value("role", json()) == "assistant") return std::string();
    fields.refuse("content", "a string or an array of text parts");
    return std::nullopt;
  }
  if (content->is_string()) return content->get<std::string>();
  if (!content->is_array()) {
    fields.refuse("content", "a string or an array of text parts");
    return std::nullopt;
  }
  std::string text;
  for (std::size_t i = 0; i < content->size(); ++i) {
    const json& part = (*content)[i];
    const std::string name = "content[" + std::to_string(i) + "]";
    if (!part.is_object() || part.value("type", json()) != "text" ||
        !part.value("text", json()).is_string()) {
      fields.refuse_unsupported(name, "only parts of type 'text' are supported");
      return std::nullopt;
    }
    text += part["text"].get<std::string>();
  }
  return text;
}

// Reads the calls of an assistant's message.
std::vector<ChatCall> calls_of(JsonFields& message) {
  std::vector<ChatCall> calls;
  const json* const list = message.find("tool_calls");
  if (list == nullptr) return calls;
  const char* const what =
      "an array of calls: {\"id\", \"type\": \"function\", \"function\": "
      "{\"name\", \"arguments\"}}";
  if (!list->is_array()) {
    message.refuse("tool_calls", what);
    return calls;
  }
  for (const json& call : *list) {
    const json function = call.is_object() ? call.value("function", json()) : json();
    const bool right = function.is_object() && function.value("name", json()).is_string() &&
                       function.value("arguments", json()).is_string();
    if (!right) {
      message.refuse("tool_calls", what);
      return calls;
    }
    const json id = call.value("id", json());
    calls.push_back({.name = function["name"].get<std::string>(),
                     .arguments = function["arguments"].get<std::string>(),
                     .id = id.is_string() ? id.get<std::string>() : ""});
  }
  return calls;
}

// Renders a function's result as a user message, for templates without such messages.
void tell_result(std::vector<ChatMessage>& messages, const ChatMessage& result) {
  const std::string text =
      "Result of " + (result.name.empty() ? "the function" : result.name) + ": " + result.content;
  const bool goes_on = messages.size() > 1 && messages.back().role == "user" &&
                       messages.back().content.starts_with("Result of ");
  if (goes_on) {
    messages.back().content += '\n' + text;
  } else {
    messages.push_back({.role = "user", .content = text});
  }
}

std::optional<ChatMessage> read_message(JsonFields& fields, const json& message) {
  auto role = fields.word("role", {"system", "developer", "user", "assistant", "tool"});
  if (!role) fields.refuse("role", "'system', 'user', 'assistant' or 'tool'");
  auto content = content_of(message, fields);
  std::vector<ChatCall> calls = calls_of(fields);
  if (fields.error()) return std::nullopt;
  // OpenAI's newer name.
  if (*role == "developer") role = "system";
  ChatMessage read{.role = *std::move(role), .content = *std::move(content)};
  if (read.role == "assistant") {
    read.calls = std::move(calls);
    fields.read("reasoning_content", read.reasoning);
    if (fields.error()) return std::nullopt;
  }
  const json id = message.value("tool_call_id", json());
  if (read.role == "tool" && id.is_string()) read.call_id = id.get<std::string>();
  return read;
}

std::vector<ChatMessage> read_messages(JsonFields& fields, const CallForm& form) {
  std::vector<ChatMessage> messages;
  std::map<std::string, std::string> functions;  // called functions, by call id
  const json* const list = fields.find("messages");
  if (list != nullptr && list->is_array() && list->empty()) {
    fields.refuse_unsupported("messages", "the array is empty; expected at least one message");
    return {};
  }
  if (list == nullptr || !list->is_array()) {
    fields.refuse("messages", "an array of at least one message");
    return {};
  }
  for (std::size_t i = 0; i < list->size() && !fields.error(); ++i) {
    const std::string path = "messages[" + std::to_string(i) + "]";
    if (!(*list)[i].is_object()) {
      fields.take(
          ApiError{.message = "'" + path + "' is " + kind_of((*list)[i]) + "; expected an object",
                   .param = path,
                   .code = "invalid_value"});
      return {};
    }
    JsonFields inner((*list)[i], path + ".");
    auto message = read_message(inner, (*list)[i]);
    fields.take(inner.error());
    if (fields.error()) return {};
    for (const ChatCall& call : message->calls) functions[call.id] = call.name;
    if (message->role == "tool") message->name = functions[message->call_id];
    if (form.is_templates) {
      messages.push_back(*std::move(message));
    } else if (message->role == "tool") {
      tell_result(messages, *message);
    } else {
      if (!message->calls.empty()) message->content += form.written(message->calls);
      message->calls.clear();
      messages.push_back(*std::move(message));
    }
  }
  return messages;
}

// A final assistant message is the start of the answer, as in llama-server.
void take_begun(JsonFields& fields, CompletionRequest& request) {
  const json* const list = fields.find("messages");
  if (fields.error() || request.messages.back().role != "assistant") return;
  const auto calls = [](const json& message) {
    return !message.value("tool_calls", json()).empty();
  };
  if (calls(list->back())) return;
  request.begun = std::move(request.messages.back().content);
  request.messages.pop_back();
  const bool again = !request.messages.empty() && request.messages.back().role == "assistant" &&
                     !calls((*list)[list->size() - 2]);
  if (request.messages.empty() || again) {
    fields.refuse_unsupported(
        "messages",
        "the assistant's last message is continued, so a message of another role must precede it");
  }
}

// Additional variables of the chat template.
void read_template_variables(JsonFields& fields, CompletionRequest& request) {
  constexpr const char* kName = "chat_template_kwargs";
  const json* const variables = fields.find(kName);
  if (variables == nullptr) return;
  if (!variables->is_object())
    return fields.refuse(kName, "an object of variables of the chat template");
  for (const auto& [name, value] : variables->items()) {
    const std::string path = std::string(kName) + "." + name;
    if (is_own_variable(name)) {
      return fields.refuse_unsupported(path, "this variable is set by other fields of the request");
    }
    if (value.is_structured())
      return fields.refuse_unsupported(path, "expected a string, number, true, false or null");
  }
  request.template_variables = variables->dump();
}

// Empty if it is not a prompt.
std::optional<TextPrompt> prompt_of(const json& value) {
  if (value.is_string() && !value.empty() && value != "") {
    return TextPrompt{.text = value.get<std::string>()};
  }
  if (!value.is_array() || value.empty()) return std::nullopt;
  TextPrompt prompt;
  for (const json& token : value) {
    if (!token.is_number_unsigned() || token.get<std::uint64_t>() >= kTokenIdEnd) {
      return std::nullopt;
    }
    prompt.tokens.push_back(token.get<std::uint32_t>());
  }
  return prompt;
}

void read_prompts(JsonFields& fields, CompletionRequest& request) {
  const std::string what = "a string, an array of token ids, or an array of up to " +
                           std::to_string(kChoicesMax) + " of either, none of them empty";
  const json* const field = fields.find("prompt");
  if (field == nullptr) return fields.refuse("prompt", what);
  const bool is_list = field->is_array() && !field->empty() && !field->front().is_number();
  const json list = is_list ? *field : json::array({*field});
  if (list.size() > kChoicesMax) return fields.refuse("prompt", what);
  for (const json& one : list) {
    auto prompt = prompt_of(one);
    if (!prompt) return fields.refuse("prompt", what);
    request.prompts.push_back(*std::move(prompt));
  }
}

// {"type": "content", "content": a text or an array of text parts}
void read_prediction(JsonFields& fields, CompletionRequest& request) {
  const json* const prediction = fields.find("prediction");
  if (prediction == nullptr) return;
  if (!prediction->is_object() || prediction->value("type", json("content")) != "content") {
    return fields.refuse("prediction", R"(an object {"type": "content", "content": TEXT})");
  }
  JsonFields inner(*prediction, "prediction.");
  if (auto text = content_of(*prediction, inner)) request.prediction = *std::move(text);
  fields.take(inner.error());
}

void read_stops(JsonFields& fields, CompletionRequest& request) {
  const json* const stop = fields.find("stop");
  if (stop == nullptr) return;
  const std::string what = "a string, or an array of at most " + std::to_string(kStopsMax) +
                           ", each of 1 to " + std::to_string(kStopBytesMax) + " bytes";
  if (!stop->is_string() && (!stop->is_array() || stop->size() > kStopsMax)) {
    return fields.refuse("stop", what);
  }
  for (const json& one : stop->is_string() ? json::array({*stop}) : *stop) {
    if (!one.is_string()) return fields.refuse("stop", what);
    auto text = one.get<std::string>();
    if (text.empty() || text.size() > kStopBytesMax) return fields.refuse("stop", what);
    request.constraints.stops.push_back(std::move(text));
  }
}

void read_sampling(JsonFields& fields, SamplingParams& sampling) {
  double temperature = sampling.temperature;
  double top_p = sampling.top_p;
  double min_p = sampling.min_p;
  std::int64_t top_k = sampling.top_k;
  fields.read("temperature", temperature, 0.0, 100.0);
  // Smaller values would become 0 in the float32 that is sent.
  fields.read("top_p", top_p, 1e-30, 1.0);
  fields.read("min_p", min_p, 0.0, 1.0);
  fields.read("top_k", top_k, -1, kTokenIdEnd);
  sampling.temperature = static_cast<float>(temperature);
  sampling.top_p = static_cast<float>(top_p);
  sampling.min_p = static_cast<float>(min_p);
  sampling.top_k = static_cast<std::uint32_t>(std::max<std::int64_t>(top_k, 0));
  if (const json* const seed = fields.find("seed"); seed != nullptr) {
    if (seed->is_number_unsigned()) {
      sampling.seed = seed->get<std::uint64_t>();
    } else if (seed->is_number_integer()) {
      sampling.seed = static_cast<std::uint64_t>(seed->get<std::int64_t>());
    } else {
      fields.refuse("seed", "an integer");
    }
  }
}

void read_length(JsonFields& fields, CompletionRequest& request) {
  std::int64_t most = request.tokens_max;
  // The newer name takes precedence.
  for (const char* const name : {"max_tokens", "max_completion_tokens"}) {
    // Some clients send -1 for no limit.
    const json* const field = fields.find(name);
    if (field != nullptr && !field->is_number_unsigned() && *field == -1) continue;
    fields.read(name, most, 1, std::numeric_limits<std::uint32_t>::max());
  }
  request.tokens_max = static_cast<std::uint32_t>(std::min<std::int64_t>(most, kContextCountMax));
}

void read_stream_options(JsonFields& fields, CompletionRequest& request) {
  fields.read("stream", request.streams);
  const json* const options = fields.find("stream_options");
  if (options == nullptr) return;
  if (!options->is_object()) return fields.refuse("stream_options", "an object");
  JsonFields inner(*options, "stream_options.");
  inner.read("include_usage", request.includes_usage);
  inner.read("include_obfuscation", request.obfuscates);
  fields.take(inner.error());
}

void read_penalties(JsonFields& fields, Constraints& constraints) {
  double presence = 0.0;
  double frequency = 0.0;
  fields.read("presence_penalty", presence, -2.0, 2.0);
  fields.read("frequency_penalty", frequency, -2.0, 2.0);
  constraints.presence_penalty = static_cast<float>(presence);
  constraints.frequency_penalty = static_cast<float>(frequency);
}

// {"TOKEN": bias, ...}
void read_biases(JsonFields& fields, Constraints& constraints) {
  const json* const biases = fields.find("logit_bias");
  if (biases == nullptr) return;
  const std::string what = "an object of at most " + std::to_string(kBiasesMax) +
                           " token ids, each with a bias from -100 to 100";
  if (!biases->is_object() || biases->size() > kBiasesMax) return fields.refuse("logit_bias", what);
  for (const auto& [name, value] : biases->items()) {
    const auto token = number_of(name);
    const double bias = value.is_number() ? value.get<double>() : 101.0;
    if (!token || *token >= kTokenIdEnd || !(bias >= -100.0 && bias <= 100.0)) {
      return fields.refuse("logit_bias", what);
    }
    constraints.biases.push_back(
        {.token = static_cast<std::uint32_t>(*token), .bias = static_cast<float>(bias)});
  }
}

// For a chat, true and a number of alternatives; otherwise only the number.
void read_logprobs(JsonFields& fields, CompletionRequest& request) {
  const bool chat = request.kind == CompletionKind::chat;
  bool wanted = !chat && fields.find("logprobs") != nullptr;
  if (chat) fields.read("logprobs", wanted);
  std::int64_t alternatives = 0;
  fields.read(chat ? "top_logprobs" : "logprobs", alternatives, 0, kLogprobsMax - 1);
  if (alternatives > 0 && !wanted) fields.refuse("top_logprobs", "'logprobs': true as well");
  if (!wanted || fields.error()) return;
  if (request.echo) {
    return fields.refuse_unsupported("logprobs", "not supported for prompts; remove 'echo'");
  }
  request.logprobs = static_cast<std::uint8_t>(alternatives + 1);
}

// Refuses fields that change an answer and must not be ignored.
void refuse_unknown_constraints(JsonFields& fields, const CompletionRequest& request) {
  if (request.kind == CompletionKind::chat) {
    // Older names for tools.
    for (const auto& [name, instead] :
         {std::pair("functions", "tools"), std::pair("function_call", "tool_choice")}) {
      if (fields.find(name) == nullptr) continue;
      fields.refuse_unsupported(name, "not supported; use '" + std::string(instead) + "'");
    }
    return;
  }
  std::string suffix;
  fields.read("suffix", suffix);
  if (!suffix.empty()) fields.refuse_unsupported("suffix", "infilling is not supported");
  std::int64_t best_of = 0;
  fields.read("best_of", best_of, 0, std::numeric_limits<std::uint32_t>::max());
  if (best_of > request.choices) {
    fields.refuse_unsupported("best_of",
                              "answers are not compared; request several with 'n' and choose one");
  }
}

// OpenAI's characters, plus separators that others use.
bool is_function_name(std::string_view name) {
  return !name.empty() && name.size() <= 64 && std::ranges::all_of(name, [](char c) {
    return is_ascii_letter(c) || is_ascii_digit(c) ||
           std::string_view("_-.:/").find(c) != std::string_view::npos;
  });
}

std::vector<Tool> read_functions(JsonFields& fields, const ordered_json& body) {
  std::vector<Tool> tools;
  const auto list = body.find("tools");
  if (list == body.end() || list->is_null()) return tools;
  if (!list->is_array()) fields.refuse("tools", "an array of functions");
  for (std::size_t i = 0; i < list->size() && !fields.error(); ++i) {
    const std::string path = "tools[" + std::to_string(i) + "]";
    const ordered_json& tool = (*list)[i];
    const bool right = tool.is_object() && tool.value("type", ordered_json()) == "function" &&
                       tool.value("function", ordered_json()).is_object() &&
                       tool["function"].value("name", ordered_json()).is_string();
    if (!right) {
      fields.refuse_unsupported(
          path, "only {\"type\": \"function\", \"function\": {\"name\", ...}} is supported");
      return tools;
    }
    const ordered_json& function = tool["function"];
    if (!is_function_name(function["name"].get_ref<const std::string&>())) {
      fields.refuse_unsupported(
          path + ".function.name",
          "expected 1 to 64 letters, digits and any of '_', '-', '.', ':' and '/'");
      return tools;
    }
    const ordered_json described = member_of(function, "description");
    tools.push_back({.name = function["name"].get<std::string>(),
                     .description = described.is_string() ? described.get<std::string>() : "",
                     .parameters = member_of(function, "parameters", any_object()),
                     .is_strict = member_of(function, "strict") == true});
  }
  return tools;
}

// `field` is the source of the grammar.
void refuse_large_grammar(JsonFields& fields, const char* field, const CompletionRequest& request) {
  if (request.constraints.grammar.size() <= kGrammarBytesMax) return;
  fields.refuse_unsupported(field, "the grammar is larger than the " +
                                       std::to_string(kGrammarBytesMax) + " bytes allowed");
}

// tools, tool_choice, parallel_tool_calls.
void read_tools(JsonFields& fields, const ordered_json& body, const CallForm& form,
                CompletionRequest& request) {
  Tools tools{.list = read_functions(fields, body), .form = form};
  fields.read("parallel_tool_calls", tools.parallel);
  const json* const choice = fields.find("tool_choice");
  const char* const what =
      "'none', 'auto', 'required', or {\"type\": \"function\", "
      "\"function\": {\"name\": one of the tools}}";
  if (!tools.list.empty()) tools.use = ToolUse::free;
  if (choice != nullptr && choice->is_string()) {
    if (*choice == "none") {
      tools.use = ToolUse::none;
    } else if (*choice == "required") {
      tools.use = ToolUse::forced;
    } else if (*choice != "auto") {
      fields.refuse("tool_choice", what);
    }
  } else if (choice != nullptr) {
    const json function = choice->is_object() ? choice->value("function", json()) : json();
    const json name = function.is_object() ? function.value("name", json()) : json();
    std::erase_if(tools.list, [&](const Tool& tool) { return name != tool.name; });
    tools.use = ToolUse::forced;
  }
  if (tools.use == ToolUse::forced && tools.list.empty()) fields.refuse("tool_choice", what);
  if (fields.error() || tools.use == ToolUse::none) return;
  auto grammar = tools.grammar(request.unenforced);
  if (!grammar) return fields.take(grammar.error());
  if (!request.constraints.grammar.empty()) {
    return fields.refuse_unsupported("tools",
                                     "they cannot be combined with a grammar or response_format");
  }
  request.constraints.grammar = *std::move(grammar);
  refuse_large_grammar(fields, "tools", request);
  request.tools = std::move(tools);
  if (form.is_templates) return;
  if (request.messages.empty() || request.messages.front().role != "system") {
    request.messages.insert(request.messages.begin(), {.role = "system", .content = {}});
  }
  std::string& told = request.messages.front().content;
  told += (told.empty() ? "" : "\n\n") + request.tools.instructions();
}

void read_format(JsonFields& fields, const ordered_json& body, CompletionRequest& request) {
  const auto keep_to = [&](const ordered_json& schema, const char* field, bool is_strict = false) {
    if (!request.constraints.grammar.empty()) {
      return fields.refuse_unsupported(field,
                                       "it cannot be combined with a grammar or another format");
    }
    SchemaGrammar rules(field);
    const std::string rule = rules.rule_of(schema);
    fields.take(rules.error());
    request.unenforced = rules.take_unenforced();
    if (is_strict && !request.unenforced.empty()) {
      fields.take(unenforced_error(field, listed(request.unenforced)));
    }
    request.constraints.grammar = rules.grammar(rule);
    refuse_large_grammar(fields, field, request);
    request.answers_json = true;
  };
  // llama-server's short form.
  const auto schema = body.find("json_schema");
  if (schema != body.end() && !schema->is_null()) keep_to(*schema, "json_schema");
  const auto found = body.find("response_format");
  if (found == body.end() || found->is_null()) return;
  const ordered_json type =
      found->is_object() ? found->value("type", ordered_json()) : ordered_json();
  if (type == "text") return;
  if (type != "json_object" && type != "json_schema") {
    return fields.refuse("response_format",
                         "{\"type\": \"text\"}, {\"type\": \"json_object\"} or {\"type\": "
                         "\"json_schema\", \"json_schema\": {\"schema\": {...}}}");
  }
  // As in llama-server, with or without a schema.
  if (type == "json_object") {
    return keep_to(member_of(*found, "schema", any_object()), "response_format");
  }
  const ordered_json inner = member_of(*found, "json_schema");
  const ordered_json wanted = inner.is_object() ? member_of(inner, "schema") : ordered_json();
  if (wanted.is_null()) {
    return fields.refuse("response_format", "a 'json_schema' with a 'schema'");
  }
  keep_to(wanted, "response_format", member_of(inner, "strict") == true);
}

}  // namespace

OfflinePolicy offline_policy_of(std::string_view word) {
  if (word == "wait") return OfflinePolicy::wait;
  return word == "revise" ? OfflinePolicy::revise : OfflinePolicy::keep;
}

WritingSide route_of(std::string_view word) {
  if (word == "device") return WritingSide::device;
  return word == "auto" ? WritingSide::automatic : WritingSide::server;
}

std::uint64_t CompletionRequest::seed_of(std::uint32_t choice) const {
  const std::uint32_t of_prompt = choice % choices;
  if (of_prompt == 0) return sampling.seed;
  return mix64(mix64(sampling.seed + 0x9E3779B97F4A7C15u) + of_prompt);
}

ApiResult<CompletionRequest> parse_completion(std::string_view body, CompletionKind kind,
                                              const CompletionDefaults& defaults,
                                              std::uint64_t random_seed) {
  json object;
  if (const auto wrong = parse_object(body, object)) return *wrong;
  JsonFields fields(object);
  CompletionRequest request{.kind = kind,
                            .tokens_max = defaults.tokens_max,
                            .sampling = defaults.sampling,
                            .offline = defaults.offline,
                            .route = defaults.route};
  request.sampling.seed = random_seed;
  if (kind == CompletionKind::chat) {
    request.messages = read_messages(fields, defaults.calls);
    take_begun(fields, request);
    read_template_variables(fields, request);
  } else {
    read_prompts(fields, request);
    fields.read("echo", request.echo);
  }
  read_prediction(fields, request);
  read_length(fields, request);
  read_sampling(fields, request.sampling);
  read_stops(fields, request);
  read_penalties(fields, request.constraints);
  read_biases(fields, request.constraints);
  fields.read("grammar", request.constraints.grammar);
  refuse_large_grammar(fields, "grammar", request);
  std::int64_t choices = 1;
  fields.read("n", choices, 1, kChoicesMax);
  request.choices = static_cast<std::uint32_t>(choices);
  if (request.prompts.size() * request.choices > kChoicesMax) {
    fields.refuse_unsupported("n", "with this many prompts, it requests more than " +
                                       std::to_string(kChoicesMax) + " answers");
  }
  read_stream_options(fields, request);
  read_logprobs(fields, request);
  refuse_unknown_constraints(fields, request);
  const auto offline = fields.word("offline", {"wait", "keep", "revise"});
  if (offline) request.offline = offline_policy_of(*offline);
  // llama-server's values.
  if (const auto word = fields.word("reasoning_format", {"none", "auto", "deepseek"})) {
    request.splits_thoughts = *word != "none";
  }
  if (const auto word = fields.word("route", {"server", "device", "auto"})) {
    request.route = route_of(*word);
  }
  if (!fields.error()) {
    // Properties keep the order of the client's schema.
    const auto ordered = ordered_json::parse(body, nullptr, /*allow_exceptions=*/false);
    read_format(fields, ordered, request);
    if (kind == CompletionKind::chat) read_tools(fields, ordered, defaults.calls, request);
  }
  // A program would take a drafter's text for the target's.
  if (request.answers_json && !offline) request.offline = OfflinePolicy::wait;
  // A call that the target would not make must not be executed, and only the target's tokens have
  // its probabilities.
  if (request.tools.use != ToolUse::none || request.logprobs > 0) {
    if (request.route == WritingSide::device) {
      fields.refuse_unsupported(request.tools.use != ToolUse::none ? "tools" : "logprobs",
                                "they require the server, but 'route' keeps the request on the "
                                "device; set it to 'auto' or 'server'");
    }
    if (fields.find("offline") == nullptr || request.offline != OfflinePolicy::wait) {
      request.wait_max = kTargetAloneWait;
    }
    request.offline = OfflinePolicy::wait;
    request.route = WritingSide::server;
  }
  if (fields.error()) return *fields.error();
  return request;
}

}  // namespace edgedraft::client
