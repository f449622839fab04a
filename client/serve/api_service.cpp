#include "client/serve/api_service.h"

#include <algorithm>
#include <boost/asio/post.hpp>
#include <exception>
#include <nlohmann/json.hpp>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include "client/page/page_files.h"
#include "client/serve/json/url_query.h"
#include "client/serve/schema/schema_grammar.h"
#include "client/serve/state_api.h"
#include "shared/base/json_shape.h"

namespace edgedraft::client {
namespace {

constexpr const char* kUnenforcedHeader = "X-Edgedraft-Unenforced";
// Body limits: for a long conversation with pasted files; for text that is tokenized at once, which
// takes hundreds of bytes of memory per byte; for names and switches.
constexpr std::uint32_t kTextBodyMax = 16u << 20;
constexpr std::uint32_t kTokensBodyMax = 1u << 20;
constexpr std::uint32_t kSmallBodyMax = RequestWorkers::kSmallBytesMax;

std::uint64_t random_number() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

void send_failure(HttpReply reply, const std::exception& failure,
                  ErrorShape shape = ErrorShape::openai) {
  reply.send(answer_of(ApiError{.status = 500, .message = failure.what()}, shape));
}

ApiError error_of_shape() {
  return {.message = "the body is nested too deeply, or has too many members or elements",
          .code = "invalid_json"};
}

std::string names_of(const std::vector<std::string>& names) {
  std::string text;
  for (const std::string& name : names) text += (text.empty() ? "" : ", ") + name;
  return text;
}

ErrorShape errors_of(std::string_view path) {
  if (path.starts_with("/api/")) return ErrorShape::ollama;
  return path.starts_with("/v1/messages") ? ErrorShape::anthropic : ErrorShape::openai;
}

}  // namespace

ApiService::ApiService(boost::asio::io_context& io, Options options)
    : io_(io),
      options_(std::move(options)),
      guard_(options_.guard),
      privacy_(options_.privacy),
      page_(options_.store),
      kept_(io_, {}),
      conversations_(io,
                     [this] {
                       Conversations::Options with = options_.conversations;
                       with.on_outcome = [this, tell = std::move(with.on_outcome)](
                                             const GenerationOutcome& outcome) {
                         counters_.add(outcome.stats);
                         if (outcome.stats.context_count > 0)
                           context_count_ = outcome.stats.context_count;
                         if (tell) tell(outcome);
                       };
                       return with;
                     }()),
      prompts_(options_.bundle, options_.chat, options_.no_chat, options_.defaults) {
  if (options_.chat == nullptr) return;
  options_.defaults.calls = call_form_of(
      [this](const ChatInput& input) { return options_.bundle.render_chat(*options_.chat, input); },
      options_.bundle.tokenizer());
}

ApiService::~ApiService() = default;

const std::vector<ApiService::Route>& ApiService::routes() {
  using S = ApiService;
  static const std::vector<Route> routes = [] {
    using enum Access;
    std::vector<Route> all = {
        {{"POST", "/v1/chat/completions", key, kTextBodyMax}, &S::chat},
        {{"POST", "/v1/completions", key, kTextBodyMax}, &S::completion},
        {{"POST", "/v1/responses", key, kTextBodyMax}, &translate_response},
        {{"POST", "/v1/messages", key, kTextBodyMax}, &translate_message},
        {{"POST", "/v1/messages/count_tokens", key, kTextBodyMax}, &S::count_tokens},
        {{"POST", "/api/chat", key, kTextBodyMax}, &translate_ollama_chat},
        {{"POST", "/api/generate", key, kTextBodyMax}, &translate_ollama_generate},
        {{"GET", "/api/tags", key, 0}, &StateApi::ollama_tags},
        {{"GET", "/api/ps", key, 0}, &StateApi::ollama_tags},
        {{"POST", "/api/show", key, kSmallBodyMax}, &StateApi::ollama_show},
        {{"GET", "/api/version", key, 0}, &StateApi::ollama_version},
        {{"POST", "/v1/embeddings", key, kTextBodyMax}, &StateApi::embeddings},
        {{"GET", "/v1/models", key, 0}, &StateApi::models},
        {{"GET", "/v1/models/", key, 0}, &StateApi::model, /*named=*/true},
        // llama-server's paths, for base URLs without "/v1".
        {{"POST", "/chat/completions", key, kTextBodyMax}, &S::chat},
        {{"GET", "/models", key, 0}, &StateApi::models},
        {{"GET", "/models/", key, 0}, &StateApi::model, /*named=*/true},
        {{"GET", "/health", open, 0}, &StateApi::health},
        {{"GET", "/metrics", key, 0}, &StateApi::metrics},
        {{"GET", "/props", key, 0}, &StateApi::props},
        {{"POST", "/tokenize", key, kTokensBodyMax}, &client::tokenize},
        {{"POST", "/detokenize", key, kTokensBodyMax}, &client::detokenize},
        {{"POST", "/apply-template", key, kTextBodyMax}, &S::apply_template},
        {{"GET", "/v1/stream", key, 0}, &S::read_stream},
        {{"DELETE", "/v1/stream", key, 0}, &StateApi::remove_stream},
        {{"POST", "/v1/streams/lookup", key, kSmallBodyMax}, &StateApi::look_up_streams},
        {{"GET", "/v1/edgedraft/uplink", key, 0}, &StateApi::uplink},
        {{"GET", "/v1/edgedraft/link", key, 0}, &StateApi::read_link},
        {{"PUT", "/v1/edgedraft/link", key, kSmallBodyMax}, &StateApi::set_link},
        {{"GET", "/v1/edgedraft/conversations", key, 0}, &PageApi::list},
        {{"GET", "/v1/edgedraft/conversation", key, 0}, &PageApi::read},
        {{"PUT", "/v1/edgedraft/conversation", key, kTextBodyMax}, &S::keep_conversation},
        {{"DELETE", "/v1/edgedraft/conversation", key, 0}, &PageApi::remove},
        {{"POST", "/v1/edgedraft/preview", key, kTextBodyMax}, &S::preview},
    };
    for (const PageFile& file : page_files()) {
      all.push_back({{"GET", file.path, open, 0}, &PageApi::file});
    }
    return all;
  }();
  return routes;
}

std::vector<ApiService::RouteBudget> ApiService::route_budgets() {
  return {routes().begin(), routes().end()};
}

void ApiService::Call::answer(ApiResult<HttpAnswer> result) {
  HttpAnswer answer = result ? *std::move(result) : answer_of(result.error(), errors);
  answer.add(headers);
  reply.send(std::move(answer));
}

std::optional<HttpAnswer> ApiService::refuse(const HttpRequest& head) {
  const bool open = std::ranges::any_of(routes(), [&](const Route& route) {
    return route.is_of(head.path) && route.access == Access::open;
  });
  const auto refusal = guard_.refusal(head, !open);
  if (!refusal) return std::nullopt;
  ++counters_.refused;
  HttpAnswer answer = answer_of(*refusal, errors_of(head.path));
  answer.add(guard_.headers(head));
  return answer;
}

const ApiService::Route* ApiService::route_of(const HttpRequest& head) {
  const std::string_view method = head.method == "HEAD" ? "GET" : head.method;
  const auto route = std::ranges::find_if(
      routes(), [&](const Route& one) { return one.is_of(head.path) && one.method == method; });
  return route == routes().end() ? nullptr : &*route;
}

std::uint32_t ApiService::body_bytes_max(const HttpRequest& head) {
  const Route* const route = route_of(head);
  return route == nullptr ? 0 : route->body_bytes_max;
}

void ApiService::handle(HttpRequest request, HttpReply reply) {
  boost::asio::post(io_, [this, request = std::move(request), reply = std::move(reply)]() mutable {
    HttpHeaders headers = guard_.headers(request);
    const ErrorShape errors = errors_of(request.path);
    serve({.request = std::move(request),
           .reply = std::move(reply),
           .headers = std::move(headers),
           .errors = errors});
  });
}

void ApiService::serve(Call call) {
  ++counters_.requests;
  const HttpRequest& request = call.request;
  if (const Route* const route = route_of(request)) {
    // Workers check larger bodies.
    if (request.body.size() <= kSmallBodyMax && !has_readable_shape(request.body)) {
      ++counters_.refused;
      return call.fail(error_of_shape());
    }
    const HttpReply reply = call.reply;
    const ErrorShape errors = call.errors;
    try {
      if (const auto* const translate = std::get_if<Translate>(&route->page)) {
        return complete(std::move(call), CompletionKind::chat, *translate);
      }
      if (const auto* const page = std::get_if<AtOnce<PageApi>>(&route->page)) {
        return call.answer((page_.**page)(request));
      }
      if (const auto* const page = std::get_if<AtOnce<StateApi>>(&route->page)) {
        StateApi state{options_, counters_, conversations_, kept_, context_count_};
        return call.answer((state.**page)(request));
      }
      if (const auto* const page = std::get_if<OnWorker>(&route->page)) {
        return answer_on_worker(std::move(call), [this, convert = *page](std::string_view body) {
          return convert(body, options_.bundle.tokenizer());
        });
      }
      return (this->*std::get<Answering>(route->page))(std::move(call));
    } catch (const std::exception& failure) {
      return send_failure(reply, failure, errors);
    }
  }
  if (request.method == "OPTIONS" && request.header("Origin")) {
    return call.answer(guard_.preflight(request));
  }
  std::vector<std::string> methods;
  for (const Route& route : routes()) {
    if (route.is_of(request.path)) methods.emplace_back(route.method);
  }
  ++counters_.refused;
  if (methods.empty()) {
    return call.fail(
        {.status = 404, .message = "unknown URL '" + request.path + "'", .code = "unknown_url"});
  }
  HttpAnswer refusal =
      answer_of(ApiError{.status = 405,
                         .message = "'" + request.path + "' supports only " + names_of(methods),
                         .code = "method_not_allowed"},
                call.errors);
  refusal.headers.emplace_back("Allow", names_of(methods));
  call.answer(std::move(refusal));
}

// Errors    the request uses features that only the server has
std::optional<ApiError> ApiService::keep_here(CompletionRequest& request) const {
  const char* const needs = request.tools.use != ToolUse::none ? "tools"
                            : request.logprobs > 0             ? "logprobs"
                                                               : nullptr;
  if (needs != nullptr) {
    return ApiError{.message = "the request holds private text and stays on the device, where '" +
                               std::string(needs) + "' are not supported",
                    .param = needs,
                    .code = "private_text_found"};
  }
  if (!options_.device_answers) {
    return ApiError{.message =
                        "the request holds private text, and this endpoint has no drafter to "
                        "answer it on the device",
                    .param = "private",
                    .code = "private_text_found"};
  }
  request.route = WritingSide::device;
  return std::nullopt;
}

// Clients may quote a local answer before it has ended, so every scan for private text calls this
// first.
void ApiService::learn_running_answers() {
  for (const auto& [number, completion] : completions_) completion->tell_local_texts();
}

template <class Work, class Tell>
void ApiService::on_worker(Call call, Work work, Tell tell) {
  const HttpReply reply = call.reply;
  const ErrorShape errors = call.errors;
  // Continues without a reader, who returns with GET /v1/stream.
  const bool is_kept = call.request.header(kConversationHeader).has_value();
  const std::size_t bytes = call.request.body.size();
  const std::uint64_t ticket =
      workers_.post(bytes, [this, call = std::move(call), work = std::move(work),
                            tell = std::move(tell), reply, errors, bytes, is_kept]() mutable {
        if (reply.gone() && !is_kept) return;
        try {
          using Outcome = decltype(work(std::string_view(), std::function<bool()>()));
          const bool fits = bytes <= kSmallBodyMax || has_readable_shape(call.request.body);
          Outcome result = error_of_shape();
          if (fits) {
            result = work(std::string_view(call.request.body),
                          [&reply, is_kept] { return reply.gone() && !is_kept; });
          }
          call.request.body = {};
          call.request.body_share.reset();
          boost::asio::post(io_, [this, call = std::move(call), result = std::move(result),
                                  tell = std::move(tell), reply, errors]() mutable {
            if (!result) ++counters_.refused;
            try {
              tell(std::move(call), std::move(result));
            } catch (const std::exception& failure) {
              send_failure(reply, failure, errors);
            }
          });
        } catch (const std::exception& failure) {
          send_failure(reply, failure, errors);
        }
      });
  if (is_kept) return;
  HttpReply watched = reply;
  watched.on_gone([this, ticket](HttpGone) { workers_.drop(ticket); });
}

ApiResult<ApiService::Prepared> ApiService::prepare(std::string_view body, CompletionKind kind,
                                                    std::uint64_t seed, PrivacyGuard& guard,
                                                    const PastAnswers& pasts,
                                                    std::uint32_t context_count,
                                                    const std::function<bool()>& is_gone) {
  const ApiError gone{.status = 499, .message = "the client has left", .code = "client_left"};
  if (auto error = error_of_size(body, context_count)) return *std::move(error);
  auto hidden = take_out_private(body, guard, options_.bundle.tokenizer());
  if (!hidden) return hidden.error();
  if (is_gone()) return gone;
  auto request = parse_completion(hidden->body, kind, options_.defaults, seed);
  if (!request) return request.error();
  if (hidden->privacy.is_local) {
    if (auto error = keep_here(*request)) return *std::move(error);
  }
  if (request->route != WritingSide::server && !options_.device_answers) {
    return ApiError{
        .message = "'route': this endpoint has no drafter that could answer; use 'server'",
        .param = "route",
        .code = "unsupported_value"};
  }
  auto prompts = prompts_.of(*request, *hidden, pasts,
                             request->route == WritingSide::device ? 0 : context_count);
  if (!prompts) return prompts.error();
  if (is_gone()) return gone;
  auto filter = filter_for(*request);
  if (!filter) return filter.error();
  return Prepared{.request = *std::move(request),
                  .prompts = *std::move(prompts),
                  .filter = *std::move(filter),
                  .privacy = std::move(hidden->privacy)};
}

ApiResult<ApiService::Prepared> ApiService::prepare_translated(
    std::string_view body, Translate translate, std::uint64_t seed, PrivacyGuard& guard,
    const PastAnswers& pasts, std::uint32_t context_count, const std::function<bool()>& is_gone) {
  auto translated = translate(body, {.model = options_.model, .pasts = past_responses_});
  if (!translated) return translated.error();
  if (translated->at_once) return Prepared{.at_once = std::move(translated->at_once)};
  auto prepared =
      prepare(translated->body, translated->kind, seed, guard, pasts, context_count, is_gone);
  if (!prepared) return translated->renamed_in(prepared.error());
  prepared->make_format = std::move(translated->make_format);
  // Corrections exist in OpenAI's chat completions only.
  if (prepared->request.offline == OfflinePolicy::revise) {
    prepared->request.offline = OfflinePolicy::keep;
  }
  return prepared;
}

// Refuses bodies larger than any context, before processing them.
std::optional<ApiError> ApiService::error_of_size(std::string_view body,
                                                  std::uint32_t context_count) const {
  // Bytes outside the prompt: schemas, grammars, stops.
  constexpr std::size_t kElseBytesMax = 1u << 20;
  const std::size_t most = prompts_.bytes_max(context_count) + kElseBytesMax;
  const std::size_t bytes = json_text_bytes(body);
  if (bytes <= most) return std::nullopt;
  return ApiError{.message = "the request has " + std::to_string(bytes) +
                             " bytes of text, more than the target's context can hold (at most " +
                             std::to_string(most) + ")",
                  .code = "context_length_exceeded"};
}

void ApiService::complete(Call call, CompletionKind kind, Translate translate) {
  const std::uint64_t seed =
      options_.seeds_are_random ? random_number() : options_.defaults.sampling.seed;
  const Instant asked = Clock::now();
  learn_running_answers();
  privacy_.vault().set_now(asked);
  // Learns private values in a copy; they join the shared values once the request is accepted.
  const auto guard = std::make_shared<PrivacyGuard>(privacy_);
  on_worker(
      std::move(call),
      [this, kind, translate, seed, guard, pasts = conversations_.pasts(),
       context_count = context_count_](std::string_view body,
                                       const std::function<bool()>& is_gone) {
        return translate == nullptr
                   ? prepare(body, kind, seed, *guard, pasts, context_count, is_gone)
                   : prepare_translated(body, translate, seed, *guard, pasts, context_count,
                                        is_gone);
      },
      [this, asked, guard](Call asking, ApiResult<Prepared> prepared) {
        if (!prepared) return asking.fail(prepared.error());
        if (prepared->at_once) return asking.answer(*std::move(prepared->at_once));
        privacy_.learn_from(*guard);
        if (!prepared->request.unenforced.empty()) {
          asking.headers.emplace_back(kUnenforcedHeader, listed(prepared->request.unenforced));
        }
        const Instant start_at =
            prepared->privacy.found() ? begin_of_private(asked, Clock::now()) : asked;
        start(std::move(asking), *std::move(prepared), start_at);
      });
}

const std::shared_ptr<const TokenTexts>& ApiService::texts() {
  std::call_once(texts_made_, [this] {
    texts_ = std::make_shared<const TokenTexts>(options_.bundle.tokenizer());
  });
  return texts_;
}

ApiResult<std::shared_ptr<ConstraintFilter>> ApiService::filter_for(
    const CompletionRequest& request) {
  if (request.constraints.empty()) return std::shared_ptr<ConstraintFilter>();
  auto filter = ConstraintFilter::make(request.constraints, texts());
  if (!filter) return ApiError{.message = filter.error().message, .code = "invalid_value"};
  return std::make_shared<ConstraintFilter>(*std::move(filter));
}

void ApiService::start(Call call, Prepared prepared, Instant start_at) {
  kept_.end_unread();
  const std::uint64_t number = ++last_completion_;
  CompletionRequest& request = prepared.request;
  Completion::Parts parts{.io = io_,
                          .conversations = conversations_,
                          .tokenizer = options_.bundle.tokenizer(),
                          .model = options_.model,
                          .filter = std::move(prepared.filter),
                          .texts = request.logprobs > 0 ? texts() : nullptr,
                          .keep_after = options_.keep_after,
                          .handover_below = options_.handover_below,
                          .privacy = std::move(prepared.privacy),
                          .start_at = start_at,
                          .grid = options_.grid,
                          .salt = random_number(),
                          .make_format = std::move(prepared.make_format),
                          .stream = nullptr,
                          .on_done = {}};
  // Stops the completion; called once nothing waits for it.
  const auto stop = [this, number] {
    const auto found = completions_.find(number);
    if (found != completions_.end()) found->second->stop();
  };
  std::shared_ptr<AnswerStream> kept;
  const auto name = call.request.header(kConversationHeader);
  if (name && request.streams && !parts.make_format) {
    if (!KeptStreams::is_name(*name)) {
      return call.fail({.message = std::string(kConversationHeader) +
                                   ": expected an unguessable name of 22 to 128 letters, digits "
                                   "and any of '-_.:/', such as a UUID",
                        .param = kConversationHeader,
                        .code = "invalid_value"});
    }
    call.headers.emplace_back(kConversationHeader, *name);
    kept = std::make_shared<AnswerStream>(call.reply, call.headers, options_.kept_bytes_max);
    if (!kept_.put(std::string(*name), kept, stop, Clock::now())) {
      return kept->answer(answer_of(ApiError{.status = 503,
                                             .message = "too many streams are kept; try again when "
                                                        "one has ended",
                                             .code = "refused"}));
    }
    parts.stream = kept;
  } else {
    parts.stream = std::make_shared<AnswerStream>(call.reply, call.headers, /*bytes_max=*/0);
  }
  parts.on_local_text = [this](const std::string& text) { privacy_.local_texts().add(text); };
  if (kept) {
    parts.on_answer = [this, stream = std::string(*name)](const FinishedChoice& answer,
                                                          const AnswerFormat::Json& counters) {
      page_.settle(stream, answer.text, answer.thought, counters, privacy_);
    };
  }
  parts.on_done = [this, number, kept] {
    if (kept) kept_.ended(*kept, Clock::now());
    boost::asio::post(io_, [this, number] { completions_.erase(number); });
  };
  const auto completion = std::make_shared<Completion>(std::move(parts), std::move(request),
                                                       std::move(prepared.prompts));
  completions_.emplace(number, completion);
  if (!kept) {
    const auto lose_reader = [this, number](HttpGone how) {
      const auto found = completions_.find(number);
      if (found != completions_.end()) found->second->lose_reader(how);
    };
    call.reply.on_gone([&io = io_, lose_reader](HttpGone how) {
      boost::asio::post(io, [lose_reader, how] { lose_reader(how); });
    });
  }
  completion->start();
}

template <class Work>
void ApiService::answer_on_worker(Call call, Work work) {
  on_worker(
      std::move(call),
      [work = std::move(work)](std::string_view body, const std::function<bool()>&) mutable {
        return work(body);
      },
      [](Call asking, ApiResult<HttpAnswer> result) { asking.answer(std::move(result)); });
}

// Anthropic's count: {"input_tokens"}. Learns nothing from the request.
void ApiService::count_tokens(Call call) {
  learn_running_answers();
  on_worker(
      std::move(call),
      [this, guard = privacy_, pasts = conversations_.pasts(), context_count = context_count_](
          std::string_view body,
          const std::function<bool()>& is_gone) mutable -> ApiResult<HttpAnswer> {
        const auto prepared =
            prepare_translated(body, &translate_message, 0, guard, pasts, context_count, is_gone);
        if (!prepared) return prepared.error();
        return json_answer({{"input_tokens", prepared->prompts.front().tokens.size()}});
      },
      [](Call asking, ApiResult<HttpAnswer> result) { asking.answer(std::move(result)); });
}

void ApiService::apply_template(Call call) {
  answer_on_worker(
      std::move(call),
      [this, context_count = context_count_](std::string_view body) -> ApiResult<HttpAnswer> {
        if (const auto error = error_of_size(body, context_count)) return *error;
        const auto request = parse_completion(body, CompletionKind::chat, options_.defaults,
                                              options_.defaults.sampling.seed);
        if (!request) return request.error();
        const auto text = prompts_.render(*request);
        if (!text) return text.error();
        return json_answer({{"prompt", text->text()}});
      });
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

void ApiService::keep_conversation(Call call) {
  learn_running_answers();
  on_worker(
      std::move(call),
      [guard = privacy_](std::string_view body, const std::function<bool()>&) {
        return PageApi::parse(body, guard);
      },
      [this](Call asking, ApiResult<PageApi::Document> document) {
        if (!document) return asking.fail(document.error());
        asking.answer(page_.keep(asking.request, *std::move(document)));
      });
}

void ApiService::preview(Call call) {
  learn_running_answers();
  answer_on_worker(std::move(call),
                   [this, guard = privacy_, context_count = context_count_](
                       std::string_view body) -> ApiResult<HttpAnswer> {
                     if (const auto error = error_of_size(body, context_count)) return *error;
                     return PageApi::preview(body, guard, options_.bundle.tokenizer());
                   });
}

}  // namespace edgedraft::client
