#pragma once

#include <deque>
#include <string>
#include <string_view>

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
  // {"title", "private", "document": {...}}, in which "mode" may be a request's "private", as a
  // conversation without an id. On any thread.
  static ApiResult<ConversationStore::Conversation> parse(std::string_view body,
                                                          const PrivacyGuard& privacy);
  // One that was removed in this run is refused (410): a tab that has it open still would put it
  // back. The last 1,024 are remembered.
  ApiResult<HttpAnswer> keep(const std::string& id, ConversationStore::Conversation conversation);
  ApiResult<HttpAnswer> remove(const std::string& id);
  // The messages of a chat as they would be sent. What is half typed is no value yet: the guard is
  // a copy. On any thread.
  static ApiResult<HttpAnswer> preview(std::string_view body, PrivacyGuard privacy,
                                       const Tokenizer& tokenizer);

 private:
  ConversationStore* store_;
  std::deque<std::string> removed_;  // ids, oldest first
};

}  // namespace edgedraft
