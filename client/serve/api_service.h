#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/thread_pool.hpp>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "client/engine/bundle_file.h"
#include "client/privacy/privacy_guard.h"
#include "client/privacy/uplink_record.h"
#include "client/serve/api_guard.h"
#include "client/serve/api_metrics.h"
#include "client/serve/completion.h"
#include "client/serve/completion_request.h"
#include "client/serve/conversations.h"
#include "client/serve/kept_stream.h"
#include "client/serve/page_api.h"
#include "client/serve/request_privacy.h"
#include "client/serve/request_prompts.h"
#include "shared/base/clock.h"
#include "shared/constraints/answer_law.h"
#include "shared/constraints/token_texts.h"
#include "shared/model/chat_template.h"
#include "shared/net/http/http_message.h"
#include "shared/net/http/http_reply.h"
#include "shared/net/link_plug.h"
#include "shared/net/send_grid.h"
#include "shared/net/server_contact.h"
#include "shared/runtime/memory_meter.h"

namespace edgedraft {

// The pages of the local API (docs/assistant.md), without the network around them.
//
// Threads   the io_context's, but for handle()
class ApiService {
 public:
  struct Options {
    ApiGuard::Options guard;
    const BundleFile& bundle;            // outlives it
    const ChatTemplate* chat = nullptr;  // null: the model has none, and chats are refused
    std::string no_chat;                 // why
    std::string model;                   // the name that clients see
    CompletionDefaults defaults;
    Duration keep_after{};
    bool device_answers = true;   // somebody is there who can, without the server
    double handover_below = 0.0;  // see AnswerTerms
    PrivacyGuard::Options privacy{};
    const UplinkRecord* uplink = nullptr;    // outlives it; null: nothing is recorded
    LinkPlug* plug = nullptr;                // that links hang on, outlives it; null: none
    SendGrid* grid = nullptr;                // of the links; the same
    const ServerContact* contact = nullptr;  // of the links; the same
    ConversationStore* store = nullptr;      // the same; null: there is no page
    const MemoryMeter* memory = nullptr;     // of drafters, the same; null: there are none
    std::uint64_t mapped_bytes = 0;          // of the files that these are read from
    bool seeds_are_random = true;            // where a request names none; else defaults.sampling's
    std::size_t kept_bytes_max = KeptStream::kBytesMax;  // of a stream that is kept
    Conversations::Options conversations;
  };
  ApiService(boost::asio::io_context& io, Options options);
  ~ApiService();

  // All from any thread. What is refused by its header alone, how large a body its page takes, and
  // the answer to all else.
  std::optional<HttpAnswer> refuse(const HttpRequest& head);
  static std::uint32_t body_bytes_max(const HttpRequest& head);
  void handle(HttpRequest request, HttpReply reply);

 private:
  struct Call {
    HttpRequest request;
    HttpReply reply;
    HttpHeaders headers;  // of its answer, whatever that is

    void answer(HttpAnswer answer);
    void fail(const ApiError& error) { answer(answer_of(error)); }
  };
  using Page = void (ApiService::*)(Call call);
  struct Route {
    std::string_view method;
    std::string_view path;
    Page page;
    std::uint32_t body_bytes_max = 0;
    bool needs_key = true;
    bool takes_name = false;  // follows the path, and is not empty

    bool is_of(std::string_view asked) const {
      return takes_name ? asked.starts_with(path) && asked.size() > path.size() : asked == path;
    }
  };
  static const std::vector<Route>& routes();
  // The one of that path and method; null: there is none.
  static const Route* route_of(const HttpRequest& head);

  void serve(Call call);
  void chat(Call call) { complete(std::move(call), CompletionKind::chat); }
  void completion(Call call) { complete(std::move(call), CompletionKind::text); }
  void models(Call call);
  void model(Call call);
  void health(Call call);
  void metrics(Call call);
  void props(Call call);
  void tokenize(Call call);
  void detokenize(Call call);
  void apply_template(Call call);
  void read_stream(Call call);
  void remove_stream(Call call);
  void look_up_streams(Call call);
  void uplink(Call call);
  void read_link(Call call);
  void set_link(Call call);
  void page_file(Call call);
  void list_conversations(Call call);
  void read_conversation(Call call);
  void keep_conversation(Call call);
  void remove_conversation(Call call);
  void preview(Call call);
  static void answer(Call call, ApiResult<HttpAnswer> result);

  // What a request comes to before it is answered.
  struct Prepared {
    CompletionRequest request;
    std::vector<Prompt> prompts;
    std::shared_ptr<AnswerLaw> law;
    RequestPrivacy privacy;
  };
  // Looks through, tokenises and compiles, which takes long; `guard` learns from it. On any thread.
  ApiResult<Prepared> prepare(std::string_view body, CompletionKind kind, std::uint64_t seed,
                              PrivacyGuard& guard, const PastAnswers& pasts,
                              std::uint32_t context_count);
  // Calls `work`, which reads the body, beside the loop, and then `tell` with its result on it.
  // Large bodies wait for each other, and small ones for small ones alone.
  template <class Work, class Tell>
  void at_desk(Call call, Work work, Tell tell);
  template <class Work>
  void answer_at_desk(Call call, Work work);

  void complete(Call call, CompletionKind kind);
  void learn_running_answers();
  std::optional<ApiError> keep_here(CompletionRequest& request) const;
  std::optional<ApiError> error_of_size(const HttpRequest& request) const;
  void start(Call call, Prepared prepared, Instant start_at);
  const std::shared_ptr<const TokenTexts>& texts();
  ApiResult<std::shared_ptr<AnswerLaw>> law_of(const CompletionRequest& request);

  boost::asio::io_context& io_;
  Options options_;
  ApiGuard guard_;
  PrivacyGuard privacy_;
  PageApi page_;
  ApiCounters counters_;
  std::once_flag texts_made_;
  std::shared_ptr<const TokenTexts> texts_;  // once a request needs them
  std::uint32_t context_count_ = 0;          // tokens of the target's context; 0: not known yet
  KeptStreams kept_;
  Conversations conversations_;
  RequestPrompts prompts_;
  std::uint64_t last_completion_ = 0;
  std::map<std::uint64_t, std::shared_ptr<Completion>> completions_;
  // End first, as they use the above.
  boost::asio::thread_pool small_desk_{1};
  boost::asio::thread_pool large_desk_{1};
};

}  // namespace edgedraft
