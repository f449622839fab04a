#pragma once

#include <string>
#include <utility>
#include <vector>

#include "client/engine/bundle_file.h"
#include "client/serve/api_error.h"
#include "client/serve/completion_request.h"
#include "client/serve/conversations.h"
#include "client/serve/request_privacy.h"
#include "shared/model/chat_template.h"

namespace edgedraft {

// Prompts of requests in the model's tokens: through its chat template, with our own answers as
// they were chosen, and with what stands before private text apart.
//
// Threads   one
class RequestPrompts {
 public:
  // What is referred to outlives it.
  struct Options {
    const BundleFile& bundle;
    const ChatTemplate* chat;  // null: the model has none, and chats are refused
    std::string no_chat;       // why
    const CompletionDefaults& defaults;
    const Conversations& conversations;
  };
  explicit RequestPrompts(Options options) : options_(std::move(options)) {}

  // One per prompt of a text completion, one of a chat.
  //
  // Errors    no chat template, or one that refuses these messages; no token; ids beyond the
  //           vocabulary
  ApiResult<std::vector<Prompt>> of(const CompletionRequest& request,
                                    const PrivateRequest& hidden) const;
  // A chat as its template renders it. Errors as above.
  ApiResult<MarkedText> render(const CompletionRequest& request) const;

 private:
  ApiResult<std::vector<Prompt>> whole(const CompletionRequest& request) const;
  ApiResult<std::vector<Prompt>> masked(CompletionKind kind,
                                        const PrivateRequest::Masked& masked) const;
  ApiResult<Prompt> of_text(const TextPrompt& text) const;

  Options options_;
};

}  // namespace edgedraft
