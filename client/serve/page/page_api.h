#pragma once

#include <deque>
#include <nlohmann/json_fwd.hpp>
#include <string>
#include <string_view>
#include <utility>

#include "client/serve/json/api_error.h"
#include "client/serve/page/conversation_store.h"
#include "client/serve/request/request_privacy.h"
#include "shared/net/http/http_message.h"

namespace edgedraft::client {

// Endpoints for the page besides OpenAI's API: its files, its conversations, and a preview of sent
// text. Disk errors are thrown as Failure.
//
// Threads   one, unless stated otherwise
class PageApi {
 public:
  // `store` must outlive it; null: no page.
  explicit PageApi(ConversationStore* store) : store_(store) {}

  // Returns one of the page's files, with headers that bind it to this origin.
  ApiResult<HttpAnswer> file(const HttpRequest& request);

  ApiResult<HttpAnswer> list(const HttpRequest& request);
  // The query has the id of the conversation.
  ApiResult<HttpAnswer> read(const HttpRequest& request);
  ApiResult<HttpAnswer> remove(const HttpRequest& request);
  struct Document {
    ConversationStore::Conversation conversation{};  // without an id
    std::string stream;                              // that its last turn waits for; empty: none
  };
  // Parses {"title", "private", "document": {...}}; the document's "mode" has the values of a
  // request's "private".
  // Threads   any
  static ApiResult<Document> parse(std::string_view body, const PrivacyGuard& privacy);
  // Stores a conversation. One that was removed in this run is refused (410), because a tab that
  // still has it open would restore it. The last 1,024 are remembered.
  ApiResult<HttpAnswer> keep(const HttpRequest& request, Document document);
  // Stores the answer of the turn that waits for that stream, as an open page does. Answers that
  // end after the page was closed are thus kept, too.
  void settle(const std::string& stream, const std::string& text, const std::string& thought,
              const nlohmann::ordered_json& counters, const PrivacyGuard& privacy);
  // Returns a chat's messages as they would be sent. The guard is a copy, because half-typed text
  // must not become a value. Threads   any
  static ApiResult<HttpAnswer> preview(std::string_view body, PrivacyGuard privacy,
                                       const Tokenizer& tokenizer);

 private:
  ConversationStore* store_;
  std::deque<std::string> removed_;  // ids, oldest first
  // Streams that stored conversations wait for, with their ids; oldest first.
  std::deque<std::pair<std::string, std::string>> awaited_;
};

}  // namespace edgedraft::client
