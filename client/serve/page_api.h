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
// Threads   one, but for file()
class PageApi {
 public:
  // All outlive it. `store` may be null: there is no page then.
  PageApi(ConversationStore* store, PrivacyGuard& privacy, const Tokenizer& tokenizer)
      : store_(store), privacy_(privacy), tokenizer_(tokenizer) {}

  // One of the page's files, with the headers that bind it to this origin.
  static HttpAnswer file(std::string_view path);

  ApiResult<HttpAnswer> list() const;
  // `id`: of the query.
  ApiResult<HttpAnswer> read(const std::string& id) const;
  // {"title", "private", "document": {...}}, in which "mode" may be a request's "private".
  // One that was removed in this run is refused (410): a tab that has it open still would put it
  // back. The last 1,024 are remembered.
  ApiResult<HttpAnswer> keep(const std::string& id, std::string_view body);
  ApiResult<HttpAnswer> remove(const std::string& id);
  // The messages of a chat as they would be sent.
  ApiResult<HttpAnswer> preview(std::string_view body);

 private:
  ConversationStore* store_;
  PrivacyGuard& privacy_;
  const Tokenizer& tokenizer_;
  std::deque<std::string> removed_;  // ids, oldest first
};

}  // namespace edgedraft
