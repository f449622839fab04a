#pragma once

#include <deque>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "client/serve/api_error.h"
#include "client/serve/conversation_store.h"
#include "client/serve/request_privacy.h"
#include "shared/net/http/http_message.h"

namespace edgedraft {

// What the page needs besides OpenAI's API: its own files, its conversations, and a look at what
// would be sent. An error is thrown as Failure where the disk fails.
//
// Threads   one, where nothing else is said
class PageApi {
 public:
  // `store` outlives it, and may be null: there is no page then.
  explicit PageApi(ConversationStore* store) : store_(store) {}

  // One of the page's files, with the headers that bind it to this origin.
  static HttpAnswer file(std::string_view path);

  ApiResult<HttpAnswer> list() const;
  // `id`: of the query.
  ApiResult<HttpAnswer> read(const std::string& id) const;
  struct Document {
    ConversationStore::Conversation conversation{};  // without an id
    std::string stream;                              // that its last turn waits for; empty: none
  };
  // {"title", "private", "document": {...}}, in which "mode" may be a request's "private". On any
  // thread.
  static ApiResult<Document> parse(std::string_view body, const PrivacyGuard& privacy);
  // One that was removed in this run is refused (410): a tab that has it open still would put it
  // back. The last 1,024 are remembered.
  ApiResult<HttpAnswer> keep(const std::string& id, Document document);
  ApiResult<HttpAnswer> remove(const std::string& id);
  // Gives the turn that waits for the stream of that name its answer, as the page itself does when
  // it is open: so an answer that ends after the page was closed is kept, too.
  void settle(const std::string& stream, const std::string& text, const std::string& thought,
              const nlohmann::ordered_json& counters, const PrivacyGuard& privacy);
  // The messages of a chat as they would be sent. What is half typed is no value yet: the guard is
  // a copy. On any thread.
  static ApiResult<HttpAnswer> preview(std::string_view body, PrivacyGuard privacy,
                                       const Tokenizer& tokenizer);

 private:
  ConversationStore* store_;
  std::deque<std::string> removed_;  // ids, oldest first
  // Streams that kept conversations wait for, and their ids; oldest first.
  std::deque<std::pair<std::string, std::string>> awaited_;
};

}  // namespace edgedraft
