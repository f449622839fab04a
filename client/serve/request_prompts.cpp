#include "client/serve/request_prompts.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "client/privacy/open_text.h"

namespace edgedraft {

ApiResult<MarkedText> RequestPrompts::render(const CompletionRequest& request) const {
  if (options_.chat == nullptr) {
    return ApiError{.message = options_.no_chat, .code = "no_chat_template"};
  }
  const CallForm& form = options_.defaults.calls;
  const bool tells_tools = request.tools.use != ToolUse::none && form.is_templates;
  const std::string tools = tells_tools ? request.tools.as_json() : "";
  auto text = options_.bundle.render_chat(
      *options_.chat,
      {.messages = request.messages, .tools = tools, .call_arguments = form.arguments});
  if (!text) {
    return ApiError{.message = text.error().message, .param = "messages", .code = "invalid_value"};
  }
  text->append(MarkedText::foreign(request.begun));
  return *std::move(text);
}

ApiResult<std::vector<Prompt>> RequestPrompts::of(const CompletionRequest& request,
                                                  const PrivateRequest& hidden) const {
  auto prompts = hidden.masked ? masked(request.kind, *hidden.masked) : whole(request);
  if (!prompts) return prompts;
  // A chat has none where its template writes nothing for such messages.
  if (std::ranges::any_of(*prompts, [](const Prompt& one) { return one.tokens.empty(); })) {
    return ApiError{.message = "the prompt has no token: give some text", .code = "invalid_value"};
  }
  if (!hidden.masked) {
    for (Prompt& prompt : *prompts) prompt.is_private = hidden.privacy.is_local;
  }
  return prompts;
}

ApiResult<std::vector<Prompt>> RequestPrompts::whole(const CompletionRequest& request) const {
  std::vector<Prompt> prompts;
  for (const TextPrompt& text : request.prompts) {
    auto prompt = of_text(text);
    if (!prompt) return prompt.error();
    prompts.push_back(*std::move(prompt));
  }
  if (request.kind == CompletionKind::text) return prompts;
  auto chat = render(request);
  if (!chat) return chat.error();
  auto tokens = options_.conversations.encode(*chat);
  prompts.push_back({.tokens = std::move(tokens), .chat = *std::move(chat)});
  return prompts;
}

// Prompts of a request that stays here, with what stands before its private text apart.
ApiResult<std::vector<Prompt>> RequestPrompts::masked(CompletionKind kind,
                                                      const PrivateRequest::Masked& masked) const {
  const auto request = parse_completion(masked.body, kind, options_.defaults, 0);
  if (!request) return request.error();
  const Tokenizer& tokenizer = options_.bundle.tokenizer();
  std::vector<Prompt> prompts;
  for (const TextPrompt& prompt : request->prompts) {
    const OpenText open = put_back(MarkedText::foreign(prompt.text), *masked.placeholders);
    const OpenTokens apart = encode_apart(open, tokenizer);
    Prompt whole{.tokens = options_.bundle.encode_raw(""), .is_private = true};
    whole.open_count = static_cast<std::uint32_t>(whole.tokens.size()) + apart.open_count;
    whole.tokens.insert(whole.tokens.end(), apart.tokens.begin(), apart.tokens.end());
    prompts.push_back(std::move(whole));
  }
  if (kind == CompletionKind::text) return prompts;
  const auto chat = render(*request);
  if (!chat) return chat.error();
  OpenText open = put_back(*chat, *masked.placeholders);
  OpenTokens apart = encode_apart(open, tokenizer);
  begin_text(apart, tokenizer);
  // With our own answers as they were, if that leaves the beginning as it is.
  auto tokens = options_.conversations.encode(open.text);
  const bool same =
      tokens.size() >= apart.open_count &&
      std::equal(apart.tokens.begin(), apart.tokens.begin() + apart.open_count, tokens.begin());
  prompts.push_back({.tokens = same ? std::move(tokens) : std::move(apart.tokens),
                     .chat = std::move(open.text),
                     .is_private = true,
                     .open_count = apart.open_count});
  return prompts;
}

ApiResult<Prompt> RequestPrompts::of_text(const TextPrompt& text) const {
  Prompt prompt;
  if (text.tokens.empty()) {
    prompt.tokens = options_.bundle.encode_raw(text.text);
  } else {
    prompt.tokens = text.tokens;
    const std::uint32_t count = options_.bundle.tokenizer().vocabulary_count();
    if (std::ranges::any_of(prompt.tokens, [count](std::uint32_t id) { return id >= count; })) {
      return ApiError{.message = "'prompt' holds ids beyond the vocabulary of " +
                                 std::to_string(count) + " tokens",
                      .param = "prompt",
                      .code = "invalid_value"};
    }
  }
  return prompt;
}

}  // namespace edgedraft
