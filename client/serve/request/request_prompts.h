#pragma once

#include <cstddef>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "client/engine/bundle_file.h"
#include "client/serve/answer/past_answer.h"
#include "client/serve/conversations.h"
#include "client/serve/json/api_error.h"
#include "client/serve/request/completion_request.h"
#include "client/serve/request/request_privacy.h"
#include "shared/model/chat_template.h"

namespace edgedraft::client {

// Converts requests to tokens. Renders chats with the model's chat template, uses the chosen tokens
// of known answers, and encodes the part before private text separately.
//
// Threads   any
class RequestPrompts {
 public:
  // References must outlive this. Without a `chat` template, chats are refused: `no_chat` says why.
  RequestPrompts(const BundleFile& bundle, const ChatTemplate* chat, const std::string& no_chat,
                 const CompletionDefaults& defaults);

  // Maximum bytes of text in a context of that many tokens; 0: unknown yet.
  std::size_t bytes_max(std::uint32_t context_count) const;
  // Returns one prompt per text of a completion, or one for a chat, which may continue one of
  // `pasts`.
  //
  // Errors    no template, or one that refuses the messages; no tokens; ids beyond the vocabulary;
  //           more than bytes_max()
  ApiResult<std::vector<Prompt>> of(const CompletionRequest& request, const PrivateRequest& hidden,
                                    const PastAnswers& pasts, std::uint32_t context_count) const;
  // Renders a chat with its template. Errors as above.
  ApiResult<MarkedText> render(const CompletionRequest& request) const;

 private:
  ApiResult<std::vector<Prompt>> whole(const CompletionRequest& request, const PastAnswers& pasts,
                                       std::size_t bytes_max) const;
  ApiResult<std::vector<Prompt>> masked(CompletionKind kind, const PrivateRequest::Masked& masked,
                                        const PastAnswers& pasts, std::size_t bytes_max) const;
  ApiResult<Prompt> of_text(const TextPrompt& text) const;

  const BundleFile& bundle_;
  const ChatTemplate* chat_;
  const std::string& no_chat_;
  const CompletionDefaults& defaults_;
  std::size_t longest_token_ = 0;  // in bytes
};

}  // namespace edgedraft::client
