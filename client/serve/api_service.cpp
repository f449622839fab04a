#include "client/serve/api_service.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <charconv>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "client/page/page_files.h"
#include "client/privacy/open_text.h"
#include "client/serve/direct_outlet.h"
#include "client/serve/json_answer.h"
#include "client/serve/json_fields.h"
#include "client/version.h"

namespace edgedraft {
namespace {

using Json = nlohmann::ordered_json;

constexpr const char* kConversationHeader = "X-Conversation-Id";
// As many as anybody asks about at once.
constexpr std::size_t kLookedUpMax = 256;

std::uint64_t random_number() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

// "%3A" as ":". What is no escape stands for itself.
std::string unescaped(std::string_view text) {
  std::string plain;
  for (std::size_t i = 0; i < text.size(); ++i) {
    unsigned char byte = 0;
    const char* const end = text.data() + std::min(i + 3, text.size());
    const bool is_escape = text[i] == '%' && i + 2 < text.size() &&
                           std::from_chars(text.data() + i + 1, end, byte, 16).ptr == end;
    plain += is_escape ? static_cast<char>(byte) : text[i];
    if (is_escape) i += 2;
  }
  return plain;
}

std::optional<std::string> query_field(std::string_view query, std::string_view name) {
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view field = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    const std::size_t equals = std::min(field.find('='), field.size());
    if (field.substr(0, equals) != name) continue;
    return unescaped(field.substr(std::min(equals + 1, field.size())));
  }
  return std::nullopt;
}

std::optional<std::size_t> number_of(const std::string& text) {
  std::size_t number = 0;
  const char* const end = text.data() + text.size();
  const auto parsed = std::from_chars(text.data(), end, number);
  if (parsed.ec != std::errc() || parsed.ptr != end) return std::nullopt;
  return number;
}

std::string names_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

}  // namespace

ApiService::ApiService(Options options)
    : options_(std::move(options)),
      guard_(options_.guard),
      privacy_(options_.privacy),
      page_(options_.store, privacy_, options_.bundle.tokenizer()),
      conversations_([this] {
        Conversations::Options with = options_.conversations;
        with.on_outcome = [this, tell = std::move(with.on_outcome)](const AnswerOutcome& outcome) {
          count(outcome);
          if (tell) tell(outcome);
        };
        return with;
      }()) {
  if (options_.chat == nullptr) return;
  options_.defaults.calls = call_form_of(
      [this](const ChatInput& input) { return options_.bundle.render_chat(*options_.chat, input); },
      options_.bundle.tokenizer());
}

ApiService::~ApiService() = default;

const std::vector<ApiService::Route>& ApiService::routes() {
  using S = ApiService;
  static const std::vector<Route> routes = {
      {"POST", "/v1/chat/completions", &S::chat},
      {"POST", "/v1/completions", &S::completion},
      {"GET", "/v1/models", &S::models},
      // llama-server's names of the two, for base URLs without "/v1".
      {"POST", "/chat/completions", &S::chat},
      {"GET", "/models", &S::models},
      {"GET", "/health", &S::health, /*needs_key=*/false},
      {"GET", "/metrics", &S::metrics},
      {"GET", "/props", &S::props},
      {"POST", "/tokenize", &S::tokenize},
      {"POST", "/detokenize", &S::detokenize},
      {"POST", "/apply-template", &S::apply_template},
      {"GET", "/v1/stream", &S::read_stream},
      {"DELETE", "/v1/stream", &S::remove_stream},
      {"POST", "/v1/streams/lookup", &S::look_up_streams},
      {"GET", "/v1/edgedraft/uplink", &S::uplink},
      {"GET", "/v1/edgedraft/link", &S::read_link},
      {"PUT", "/v1/edgedraft/link", &S::set_link},
      {"GET", "/v1/edgedraft/conversations", &S::list_conversations},
      {"GET", "/v1/edgedraft/conversation", &S::read_conversation},
      {"PUT", "/v1/edgedraft/conversation", &S::keep_conversation},
      {"DELETE", "/v1/edgedraft/conversation", &S::remove_conversation},
      {"POST", "/v1/edgedraft/preview", &S::preview},
  };
  static const std::vector<Route> with_page = [] {
    std::vector<Route> all = routes;
    for (const PageFile& file : page_files()) {
      all.push_back({"GET", file.path, &S::page_file, /*needs_key=*/false});
    }
    return all;
  }();
  return with_page;
}

void ApiService::Call::answer(HttpAnswer answer) {
  answer.add(headers);
  reply.send(std::move(answer));
}

std::optional<HttpAnswer> ApiService::refuse(const HttpRequest& head) {
  const bool open = std::ranges::any_of(
      routes(), [&](const Route& route) { return route.path == head.path && !route.needs_key; });
  const auto refusal = guard_.refusal(head, !open);
  if (!refusal) return std::nullopt;
  ++counters_.refused;
  HttpAnswer answer = answer_of(*refusal);
  answer.add(guard_.headers(head));
  return answer;
}

void ApiService::handle(const HttpRequest& request, const HttpReply& reply) {
  boost::asio::post(options_.io, [this, request, reply] {
    serve({.request = request, .reply = reply, .headers = guard_.headers(request)});
  });
}

void ApiService::serve(Call call) {
  ++counters_.requests;
  const HttpRequest& request = call.request;
  const auto of_path = [&](const Route& route) { return route.path == request.path; };
  const std::string method = request.method == "HEAD" ? "GET" : request.method;
  const auto page = std::ranges::find_if(
      routes(), [&](const Route& route) { return of_path(route) && route.method == method; });
  const bool found = page != routes().end();
  if (found) {
    HttpReply reply = call.reply;
    try {
      return (this->*page->page)(std::move(call));
    } catch (const std::exception& failure) {
      return reply.send(answer_of(ApiError{.status = 500, .message = failure.what()}));
    }
  }
  if (method == "OPTIONS" && request.header("Origin")) {
    return call.answer(guard_.preflight(request));
  }
  std::vector<std::string> methods;
  for (const Route& route : routes()) {
    if (of_path(route)) methods.emplace_back(route.method);
  }
  ++counters_.refused;
  if (methods.empty()) {
    return call.fail({.status = 404,
                      .message = "there is no page '" + request.path + "'",
                      .code = "unknown_url"});
  }
  HttpAnswer refusal =
      answer_of(ApiError{.status = 405,
                         .message = "'" + request.path + "' takes " + names_of(methods),
                         .code = "method_not_allowed"});
  refusal.headers.emplace_back("Allow", names_of(methods));
  call.answer(std::move(refusal));
}

// Errors    of what only the server can do
std::optional<ApiError> ApiService::keep_here(CompletionRequest& request) const {
  const char* const needs = request.tools.use != ToolUse::none ? "tools"
                            : request.logprobs > 0             ? "logprobs"
                                                               : nullptr;
  if (needs != nullptr) {
    return ApiError{.message = "it holds private text and stays on the device, where '" +
                               std::string(needs) + "' are not to be had",
                    .param = needs,
                    .code = "private_text_found"};
  }
  if (!options_.device_answers) {
    return ApiError{.message =
                        "it holds private text, and this endpoint has no drafter that could "
                        "answer it here",
                    .param = "private",
                    .code = "private_text_found"};
  }
  request.route = AnswerRoute::device;
  return std::nullopt;
}

void ApiService::complete(Call call, CompletionKind kind) {
  const std::uint64_t seed =
      options_.seeds_are_random ? random_number() : options_.defaults.sampling.seed;
  const Instant asked = Clock::now();
  auto hidden = take_out_private(call.request.body, privacy_, options_.bundle.tokenizer());
  auto request = hidden ? parse_completion(hidden->body, kind, options_.defaults, seed)
                        : ApiResult<CompletionRequest>(hidden.error());
  if (request && hidden->privacy.is_local) {
    if (auto error = keep_here(*request)) request = *std::move(error);
  }
  auto prompts =
      request ? prompts_of(*request, *hidden) : ApiResult<std::vector<Prompt>>(request.error());
  if (!prompts) {
    ++counters_.refused;
    return call.fail(prompts.error());
  }
  if (request->route != AnswerRoute::server && !options_.device_answers) {
    ++counters_.refused;
    return call.fail({.message = "'route': this endpoint has no drafter that could answer; only "
                                 "'server' is there",
                      .param = "route",
                      .code = "unsupported_value"});
  }
  auto law = law_of(*request);
  if (!law) {
    ++counters_.refused;
    return call.fail(law.error());
  }
  const Instant start_at = hidden->privacy.found() ? begin_of_private(asked, Clock::now()) : asked;
  start(std::move(call), *std::move(request), *std::move(prompts), *std::move(law),
        std::move(hidden->privacy), start_at);
}

const std::shared_ptr<const TokenTexts>& ApiService::texts() {
  if (!texts_) texts_ = std::make_shared<const TokenTexts>(options_.bundle.tokenizer());
  return texts_;
}

ApiResult<std::shared_ptr<AnswerLaw>> ApiService::law_of(const CompletionRequest& request) {
  if (request.constraints.empty()) return std::shared_ptr<AnswerLaw>();
  auto law = AnswerLaw::make(request.constraints, texts());
  if (!law) return ApiError{.message = law.error().message, .code = "invalid_value"};
  return std::make_shared<AnswerLaw>(*std::move(law));
}

void ApiService::start(Call call, CompletionRequest request, std::vector<Prompt> prompts,
                       std::shared_ptr<AnswerLaw> law, RequestPrivacy privacy, Instant start_at) {
  const std::uint64_t number = ++last_completion_;
  Completion::Parts parts{.io = options_.io,
                          .conversations = conversations_,
                          .tokenizer = options_.bundle.tokenizer(),
                          .model = options_.model,
                          .law = std::move(law),
                          .texts = request.logprobs > 0 ? texts() : nullptr,
                          .keep_after = options_.keep_after,
                          .handover_below = options_.handover_below,
                          .privacy = std::move(privacy),
                          .start_at = start_at,
                          .grid = options_.grid,
                          .salt = random_number(),
                          .outlet = nullptr,
                          .on_done = {}};
  // Stops it when nobody is left who wants it.
  const auto stop = [this, number] {
    const auto found = completions_.find(number);
    if (found != completions_.end()) found->second->stop();
  };
  std::shared_ptr<KeptStream> kept;
  const auto name = call.request.header(kConversationHeader);
  if (name && request.streams) {
    if (!KeptStreams::is_name(*name)) {
      return call.fail({.message = std::string(kConversationHeader) +
                                   ": give a name that nobody guesses, 22 to 128 letters, digits "
                                   "and any of '-_.:/', such as a UUID",
                        .param = kConversationHeader,
                        .code = "invalid_value"});
    }
    call.headers.emplace_back(kConversationHeader, *name);
    kept = std::make_shared<KeptStream>(call.reply, call.headers);
    if (!kept_.put(std::string(*name), kept, stop, Clock::now())) {
      return kept->answer(answer_of(ApiError{.status = 503,
                                             .message = "too many streams are kept; try again when "
                                                        "one has ended",
                                             .code = "refused"}));
    }
    parts.outlet = kept;
  } else {
    parts.outlet = std::make_shared<DirectOutlet>(call.reply, call.headers);
  }
  parts.on_local_text = [this](const std::string& text) { privacy_.local_texts().add(text); };
  parts.on_done = [this, number, kept] {
    if (kept) kept_.ended(*kept, Clock::now());
    boost::asio::post(options_.io, [this, number] { completions_.erase(number); });
  };
  const auto completion =
      std::make_shared<Completion>(std::move(parts), std::move(request), std::move(prompts));
  completions_.emplace(number, completion);
  if (!kept) {
    const auto lose_reader = [this, number](HttpGone how) {
      const auto found = completions_.find(number);
      if (found != completions_.end()) found->second->lose_reader(how);
    };
    call.reply.on_gone([&io = options_.io, lose_reader](HttpGone how) {
      boost::asio::post(io, [lose_reader, how] { lose_reader(how); });
    });
  }
  completion->start();
}

ApiResult<MarkedText> ApiService::render(const CompletionRequest& request) const {
  if (options_.chat == nullptr) {
    return ApiError{.message = options_.no_chat, .code = "no_chat_template"};
  }
  const CallForm& form = options_.defaults.calls;
  const bool tells_tools = request.tools.use != ToolUse::none && form.is_templates;
  const std::string tools = tells_tools ? request.tools.as_json() : "";
  auto text = options_.bundle.render_chat(
      *options_.chat,
      {.messages = request.messages, .tools = tools, .call_arguments = form.arguments});
  if (!text) {
    return ApiError{.message = text.error().message, .param = "messages", .code = "invalid_value"};
  }
  text->append(MarkedText::foreign(request.begun));
  return *std::move(text);
}

ApiResult<std::vector<Prompt>> ApiService::prompts_of(const CompletionRequest& request,
                                                      const PrivateRequest& hidden) const {
  if (hidden.masked) return masked_prompts_of(request.kind, *hidden.masked);
  auto prompts = whole_prompts_of(request);
  if (prompts) {
    for (Prompt& prompt : *prompts) prompt.is_private = hidden.privacy.is_local;
  }
  return prompts;
}

ApiResult<std::vector<Prompt>> ApiService::whole_prompts_of(
    const CompletionRequest& request) const {
  std::vector<Prompt> prompts;
  for (const TextPrompt& text : request.prompts) {
    auto prompt = prompt_of(text);
    if (!prompt) return prompt.error();
    prompts.push_back(*std::move(prompt));
  }
  if (request.kind == CompletionKind::text) return prompts;
  auto chat = render(request);
  if (!chat) return chat.error();
  auto tokens = conversations_.encode(*chat);
  prompts.push_back({.tokens = std::move(tokens), .chat = *std::move(chat)});
  return prompts;
}

// Prompts of a request that stays here, with what stands before its private text apart.
ApiResult<std::vector<Prompt>> ApiService::masked_prompts_of(
    CompletionKind kind, const PrivateRequest::Masked& masked) const {
  const auto request = parse_completion(masked.body, kind, options_.defaults, 0);
  if (!request) return request.error();
  const Tokenizer& tokenizer = options_.bundle.tokenizer();
  std::vector<Prompt> prompts;
  for (const TextPrompt& prompt : request->prompts) {
    const OpenText open = put_back(MarkedText::foreign(prompt.text), *masked.placeholders);
    const OpenTokens apart = encode_apart(open, tokenizer);
    Prompt whole{.tokens = options_.bundle.encode_raw(""), .is_private = true};
    whole.open_count = static_cast<std::uint32_t>(whole.tokens.size()) + apart.open_count;
    whole.tokens.insert(whole.tokens.end(), apart.tokens.begin(), apart.tokens.end());
    prompts.push_back(std::move(whole));
  }
  if (kind == CompletionKind::text) return prompts;
  const auto chat = render(*request);
  if (!chat) return chat.error();
  OpenText open = put_back(*chat, *masked.placeholders);
  auto [apart, open_count] = encode_apart(open, tokenizer);
  // With our own answers as they were, if that leaves the beginning as it is.
  auto tokens = conversations_.encode(open.text);
  const bool same = tokens.size() >= open_count &&
                    std::equal(apart.begin(), apart.begin() + open_count, tokens.begin());
  prompts.push_back({.tokens = same ? std::move(tokens) : std::move(apart),
                     .chat = std::move(open.text),
                     .is_private = true,
                     .open_count = open_count});
  return prompts;
}

ApiResult<Prompt> ApiService::prompt_of(const TextPrompt& text) const {
  Prompt prompt;
  if (text.tokens.empty()) {
    prompt.tokens = options_.bundle.encode_raw(text.text);
  } else {
    prompt.tokens = text.tokens;
    const std::uint32_t count = options_.bundle.tokenizer().vocabulary_count();
    if (std::ranges::any_of(prompt.tokens, [count](std::uint32_t id) { return id >= count; })) {
      return ApiError{.message = "'prompt' holds ids beyond the vocabulary of " +
                                 std::to_string(count) + " tokens",
                      .param = "prompt",
                      .code = "invalid_value"};
    }
  }
  if (!prompt.tokens.empty()) return prompt;
  return ApiError{.message = "the prompt has no token: give some text", .code = "invalid_value"};
}

void ApiService::count(const AnswerOutcome& outcome) {
  const GenerationStats& stats = outcome.stats;
  ++counters_.answers;
  counters_.prompt_tokens += stats.prompt_tokens;
  counters_.reused_tokens += stats.reused_tokens;
  counters_.tokens += stats.tokens;
  counters_.offline_tokens += stats.offline_tokens;
  counters_.rewritten_tokens += stats.rewritten_tokens;
  counters_.drafted += stats.drafted;
  counters_.accepted += stats.accepted;
  counters_.target_passes += stats.target_calls;
}

void ApiService::models(Call call) {
  call.answer(json_answer({{"object", "list"},
                           {"data", Json::array({{{"id", options_.model},
                                                  {"object", "model"},
                                                  {"created", 0},
                                                  {"owned_by", "edgedraft"}}})}}));
}

void ApiService::health(Call call) {
  call.answer(json_answer({{"status", "ok"}}));
}

void ApiService::metrics(Call call) {
  std::string text;
  const auto add = [&text](const char* name, const char* type, const char* help,
                           std::uint64_t value) {
    const std::string full = std::string("edgedraft_client:") + name;
    text += "# HELP " + full + ' ' + help + "\n# TYPE " + full + ' ' + type + '\n' + full + ' ' +
            std::to_string(value) + '\n';
  };
  add("requests_total", "counter", "HTTP requests", counters_.requests);
  add("requests_refused_total", "counter", "of them: refused", counters_.refused);
  add("answers_total", "counter", "Answers that ended", counters_.answers);
  add("prompt_tokens_total", "counter", "Tokens of prompts", counters_.prompt_tokens);
  add("prompt_tokens_cached_total", "counter", "of them: known from the conversation",
      counters_.reused_tokens);
  add("generation_tokens_total", "counter", "Tokens of answers", counters_.tokens);
  add("offline_tokens_total", "counter", "Tokens written without the server",
      counters_.offline_tokens);
  add("rewritten_tokens_total", "counter", "of them: corrected", counters_.rewritten_tokens);
  add("spec_decode_num_draft_tokens_total", "counter", "Tokens drafted", counters_.drafted);
  add("spec_decode_num_accepted_tokens_total", "counter", "of them: accepted", counters_.accepted);
  add("target_passes_total", "counter", "Answers of the target", counters_.target_passes);
  add("conversations_open", "gauge", "Conversations with memory", conversations_.open_count());
  add("requests_processing", "gauge", "Answers being written", conversations_.busy_count());
  add("requests_deferred", "gauge", "Prompts in line", conversations_.waiting_count());
  if (options_.memory != nullptr) {
    const MemoryMeter& memory = *options_.memory;
    add("memory_held_bytes", "gauge", "Memory that drafters hold", memory.held());
    add("memory_peak_bytes", "gauge", "The most that they held at once", memory.peak());
    if (memory.is_limited()) {
      add("memory_limit_bytes", "gauge", "The most that they may hold", memory.limit());
    }
    add("mapped_bytes", "gauge", "Files that they are read from", options_.mapped_bytes);
  }
  call.answer({.content_type = "text/plain; version=0.0.4; charset=utf-8", .body = text});
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

void ApiService::tokenize(Call call) {
  nlohmann::json body;
  if (const auto wrong = parse_object(call.request.body, body)) return call.fail(*wrong);
  JsonFields fields(body);
  std::string content;
  bool add_special = false;
  bool parse_special = false;
  bool with_pieces = false;
  fields.read("content", content);
  fields.read("add_special", add_special);
  fields.read("parse_special", parse_special);
  fields.read("with_pieces", with_pieces);
  if (fields.error()) return call.fail(*fields.error());
  const Tokenizer& tokenizer = options_.bundle.tokenizer();
  auto ids = tokenizer.encode(content, parse_special ? Special::parse : Special::plain);
  if (add_special && tokenizer.add_bos() && tokenizer.bos_id()) {
    ids.insert(ids.begin(), *tokenizer.bos_id());
  }
  Json tokens = Json::array();
  for (const std::uint32_t id : ids) {
    if (with_pieces) {
      tokens.push_back({{"id", id}, {"piece", tokenizer.token_bytes(id)}});
    } else {
      tokens.push_back(id);
    }
  }
  call.answer(json_answer({{"tokens", std::move(tokens)}}));
}

void ApiService::detokenize(Call call) {
  nlohmann::json body;
  if (const auto wrong = parse_object(call.request.body, body)) return call.fail(*wrong);
  JsonFields fields(body);
  const Tokenizer& tokenizer = options_.bundle.tokenizer();
  const nlohmann::json* const list = fields.find("tokens");
  std::vector<std::uint32_t> ids;
  const bool right = list != nullptr && list->is_array() &&
                     std::ranges::all_of(*list, [&](const nlohmann::json& id) {
                       if (!id.is_number_unsigned() || id >= tokenizer.vocabulary_count())
                         return false;
                       ids.push_back(id.get<std::uint32_t>());
                       return true;
                     });
  if (!right) fields.refuse("tokens", "an array of ids of the vocabulary");
  if (fields.error()) return call.fail(*fields.error());
  call.answer(json_answer({{"content", decode(tokenizer, ids, LeadingSpace::strip)}}));
}

void ApiService::apply_template(Call call) {
  const auto request = parse_completion(call.request.body, CompletionKind::chat, options_.defaults,
                                        options_.defaults.sampling.seed);
  if (!request) return call.fail(request.error());
  const auto text = render(*request);
  if (!text) return call.fail(text.error());
  call.answer(json_answer({{"prompt", text->text()}}));
}

void ApiService::answer(Call call, ApiResult<HttpAnswer> result) {
  if (!result) return call.fail(result.error());
  call.answer(*std::move(result));
}

void ApiService::page_file(Call call) {
  if (options_.store == nullptr) {
    return call.fail({.status = 404, .message = "this endpoint was started without its page"});
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

void ApiService::keep_conversation(Call call) {
  auto result = page_.keep(query_field(call.request.query, "id").value_or(""), call.request.body);
  answer(std::move(call), std::move(result));
}

void ApiService::remove_conversation(Call call) {
  auto result = page_.remove(query_field(call.request.query, "id").value_or(""));
  answer(std::move(call), std::move(result));
}

void ApiService::preview(Call call) {
  auto result = page_.preview(call.request.body);
  answer(std::move(call), std::move(result));
}

void ApiService::uplink(Call call) {
  const auto since = number_of(query_field(call.request.query, "since").value_or("0"));
  if (!since) {
    return call.fail({.message = "'since' is the number of a message, which those behind it follow",
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
        {.status = 404, .message = "no such stream is kept", .code = "unknown_stream"});
  }
  const auto from = number_of(from_text);
  if (!from || *from > stream->size()) {
    return call.fail({.message = "'from' is '" + from_text +
                                 "'; give a number of bytes from 0 to " +
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
        {.status = 404, .message = "no such stream is kept", .code = "unknown_stream"});
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

}  // namespace edgedraft
