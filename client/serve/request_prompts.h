#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "client/engine/bundle_file.h"
#include "client/serve/api_error.h"
#include "client/serve/completion_request.h"
#include "client/serve/conversations.h"
#include "client/serve/past_answer.h"
#include "client/serve/request_privacy.h"
#include "shared/model/chat_template.h"

namespace edgedraft {

// Prompts of requests in the model's tokens: through its chat template, with our own answers as
// they were chosen, and with what stands before private text apart.
//
// Threads   any
class RequestPrompts {
 public:
  // What is referred to outlives it.
  struct Options {
    const BundleFile& bundle;
    const ChatTemplate* chat;  // null: the model has none, and chats are refused
    std::string no_chat;       // why
    const CompletionDefaults& defaults;
  };
  explicit RequestPrompts(Options options);

  // Bytes of text that a context of so many tokens can hold at most; 0: it is not known yet.
  std::size_t bytes_max(std::uint32_t context_count) const;
  // One per prompt of a text completion, one of a chat, which may go on from one of `pasts`.
  //
  // Errors    no chat template, or one that refuses these messages; no token; ids beyond the
  //           vocabulary; more than bytes_max()
  ApiResult<std::vector<Prompt>> of(const CompletionRequest& request, const PrivateRequest& hidden,
                                    const PastAnswers& pasts, std::uint32_t context_count) const;
  // A chat as its template renders it. Errors as above.
  ApiResult<MarkedText> render(const CompletionRequest& request) const;

 private:
  ApiResult<std::vector<Prompt>> whole(const CompletionRequest& request, const PastAnswers& pasts,
                                       std::size_t bytes_max) const;
  ApiResult<std::vector<Prompt>> masked(CompletionKind kind, const PrivateRequest::Masked& masked,
                                        const PastAnswers& pasts, std::size_t bytes_max) const;
  ApiResult<Prompt> of_text(const TextPrompt& text) const;

  Options options_;
  std::size_t longest_token_ = 0;  // in bytes
};

}  // namespace edgedraft
