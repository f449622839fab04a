#pragma once

#include <boost/asio/io_context.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <variant>
#include <vector>

#include "client/engine/bundle_file.h"
#include "client/privacy/privacy_guard.h"
#include "client/privacy/uplink_record.h"
#include "client/serve/answer/answer_stream.h"
#include "client/serve/answer/completion.h"
#include "client/serve/api_guard.h"
#include "client/serve/api_metrics.h"
#include "client/serve/conversations.h"
#include "client/serve/dialects/dialect.h"
#include "client/serve/dialects/past_responses.h"
#include "client/serve/page/page_api.h"
#include "client/serve/request/completion_request.h"
#include "client/serve/request/request_privacy.h"
#include "client/serve/request/request_prompts.h"
#include "client/serve/request_workers.h"
#include "shared/base/clock.h"
#include "shared/constraints/constraint_filter.h"
#include "shared/constraints/token_texts.h"
#include "shared/model/chat_template.h"
#include "shared/model/tokenizer.h"
#include "shared/net/http/http_message.h"
#include "shared/net/http/http_reply.h"
#include "shared/net/link_plug.h"
#include "shared/net/send_grid.h"
#include "shared/runtime/memory_meter.h"

namespace edgedraft::client {

struct StateApi;

// llama-server's /tokenize and /detokenize: {"content", "add_special", "parse_special",
// "with_pieces"} to {"tokens"}, and {"tokens"} to {"content"}.
ApiResult<HttpAnswer> tokenize(std::string_view body, const Tokenizer& tokenizer);
ApiResult<HttpAnswer> detokenize(std::string_view body, const Tokenizer& tokenizer);

// Endpoints of the local API (docs/assistant.md), without the network.
//
// Threads   the io_context's, except handle()
class ApiService {
 public:
  struct Options {
    ApiGuard::Options guard;
    const BundleFile& bundle;            // must outlive this
    const ChatTemplate* chat = nullptr;  // null: the model has none, so chats are refused
    std::string no_chat;                 // why
    std::string model;                   // shown to clients
    CompletionDefaults defaults;
    Duration keep_after{};
    bool device_answers = true;   // the device can answer without the server
    double handover_below = 0.0;  // see GenerationTerms
    PrivacyGuard::Options privacy{};
    const UplinkRecord* uplink = nullptr;    // must outlive this; null: nothing is recorded
    LinkPlug* plug = nullptr;                // used by the links; must outlive this; null: none
    SendGrid* grid = nullptr;                // used by the links; must outlive this; null: none
    const ServerContact* contact = nullptr;  // used by the links; must outlive this; null: none
    ConversationStore* store = nullptr;      // must outlive this; null: no page
    const MemoryMeter* memory = nullptr;     // meters drafters; must outlive this; null: none
    std::uint64_t mapped_bytes = 0;          // size of the drafters' files
    bool seeds_are_random = true;            // if a request has none; otherwise defaults.sampling's
    std::size_t kept_bytes_max = AnswerStream::kBytesMax;  // size limit of a kept stream
    Conversations::Options conversations;
  };
  ApiService(boost::asio::io_context& io, Options options);
  ~ApiService();

  enum class Access : std::uint8_t {
    open,  // needs no key
    key,   // needs the key of the endpoint, if it has one
  };
  // Access and body limit, which apply before a body is read.
  struct RouteBudget {
    std::string_view method;
    std::string_view path;
    Access access;
    std::uint32_t body_bytes_max;  // 0: a body is not read
  };
  static std::vector<RouteBudget> route_budgets();

  // Callable from any thread: refusal by header alone, body limit of an endpoint, and request
  // handling.
  std::optional<HttpAnswer> refuse(const HttpRequest& head);
  static std::uint32_t body_bytes_max(const HttpRequest& head);
  void handle(HttpRequest request, HttpReply reply);

 private:
  struct Call {
    HttpRequest request;
    HttpReply reply;
    HttpHeaders headers;  // sent with every answer to it
    ErrorShape errors = ErrorShape::openai;

    void answer(ApiResult<HttpAnswer> result);
    void fail(const ApiError& error) { answer(error); }
  };
  // Pages by how they answer: at once, from a worker, or in their own time.
  template <class Api>
  using AtOnce = ApiResult<HttpAnswer> (Api::*)(const HttpRequest& request);
  using OnWorker = ApiResult<HttpAnswer> (*)(std::string_view body, const Tokenizer& tokenizer);
  using Answering = void (ApiService::*)(Call call);
  using Page = std::variant<Answering, AtOnce<StateApi>, AtOnce<PageApi>, OnWorker, Translate>;
  struct Route : RouteBudget {
    // Without defaults: each route states its access and limit.
    Route(const RouteBudget& budget, Page answers, bool named = false)
        : RouteBudget(budget), page(answers), takes_name(named) {}

    Page page;
    bool takes_name;  // a non-empty name follows the path

    bool is_of(std::string_view asked) const {
      return takes_name ? asked.starts_with(path) && asked.size() > path.size() : asked == path;
    }
  };
  static const std::vector<Route>& routes();
  // Returns the route for path and method; null if there is none.
  static const Route* route_of(const HttpRequest& head);

  void serve(Call call);
  void chat(Call call) { complete(std::move(call), CompletionKind::chat); }
  void completion(Call call) { complete(std::move(call), CompletionKind::text); }
  void count_tokens(Call call);
  void apply_template(Call call);
  void read_stream(Call call);
  void keep_conversation(Call call);
  void preview(Call call);

  static constexpr const char* kConversationHeader = "X-Conversation-Id";

  // A request after parsing and tokenizing.
  struct Prepared {
    CompletionRequest request;
    std::vector<Prompt> prompts;
    std::shared_ptr<ConstraintFilter> filter;
    RequestPrivacy privacy;
    FormatMaker make_format{};            // empty: OpenAI's
    std::optional<HttpAnswer> at_once{};  // the answer, if it needs no model
  };
  // Scans, tokenises and compiles a request, which is slow; `guard` learns from it. Stops early
  // once its reader is gone. Threads   any
  ApiResult<Prepared> prepare(std::string_view body, CompletionKind kind, std::uint64_t seed,
                              PrivacyGuard& guard, const PastAnswers& pasts,
                              std::uint32_t context_count, const std::function<bool()>& is_gone);
  // As prepare(), for a request of another API.
  ApiResult<Prepared> prepare_translated(std::string_view body, Translate translate,
                                         std::uint64_t seed, PrivacyGuard& guard,
                                         const PastAnswers& pasts, std::uint32_t context_count,
                                         const std::function<bool()>& is_gone);
  // Runs `work`, which reads the body, on a worker, then `tell` with its result on the loop. A
  // waiting request is dropped once its client has left.
  template <class Work, class Tell>
  void on_worker(Call call, Work work, Tell tell);
  template <class Work>
  void answer_on_worker(Call call, Work work);

  void complete(Call call, CompletionKind kind, Translate translate = nullptr);
  void learn_running_answers();
  std::optional<ApiError> keep_here(CompletionRequest& request) const;
  std::optional<ApiError> error_of_size(std::string_view body, std::uint32_t context_count) const;
  void start(Call call, Prepared prepared, Instant start_at);
  const std::shared_ptr<const TokenTexts>& texts();
  ApiResult<std::shared_ptr<ConstraintFilter>> filter_for(const CompletionRequest& request);

  boost::asio::io_context& io_;
  Options options_;
  ApiGuard guard_;
  PrivacyGuard privacy_;
  PageApi page_;
  ApiCounters counters_;
  std::once_flag texts_made_;
  std::shared_ptr<const TokenTexts> texts_;  // created on first use
  std::uint32_t context_count_ = 0;          // the target's context in tokens; 0: unknown yet
  KeptStreams kept_;
  PastResponses past_responses_;
  Conversations conversations_;
  RequestPrompts prompts_;
  std::uint64_t last_completion_ = 0;
  std::map<std::uint64_t, std::shared_ptr<Completion>> completions_;
  RequestWorkers workers_;  // declared last: its threads use the members above
};

}  // namespace edgedraft::client
