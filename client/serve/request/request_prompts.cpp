#include "client/serve/request/request_prompts.h"

#include <algorithm>
#include <cstdint>
#include <utility>

#include "client/privacy/open_text.h"

namespace edgedraft::client {
namespace {

// Tokenizing takes up to 240 times the bytes of the text.
constexpr std::size_t kPromptBytesMax = 3u << 20;
// A tokenizer may normalise text to fewer bytes: three Hangul letters become one.
constexpr std::size_t kShortensBy = 4;

ApiError too_long(std::size_t bytes, std::size_t most, const char* what = "prompt") {
  return {.message = "the " + std::string(what) + " has " + std::to_string(bytes) +
                     " bytes, more than the target's context can hold (at most " +
                     std::to_string(most) + ")",
          .code = "context_length_exceeded"};
}

}  // namespace

RequestPrompts::RequestPrompts(const BundleFile& bundle, const ChatTemplate* chat,
                               const std::string& no_chat, const CompletionDefaults& defaults)
    : bundle_(bundle), chat_(chat), no_chat_(no_chat), defaults_(defaults) {
  const Tokenizer& tokenizer = bundle_.tokenizer();
  for (std::uint32_t id = 0; id < tokenizer.vocabulary_count(); ++id) {
    longest_token_ = std::max(longest_token_, tokenizer.token_text(id).size());
  }
}

std::size_t RequestPrompts::bytes_max(std::uint32_t context_count) const {
  if (context_count == 0) return kPromptBytesMax;
  return std::min(kPromptBytesMax, kShortensBy * longest_token_ * context_count);
}

ApiResult<MarkedText> RequestPrompts::render(const CompletionRequest& request) const {
  if (chat_ == nullptr) {
    return ApiError{.message = no_chat_, .code = "no_chat_template"};
  }
  const CallForm& form = defaults_.calls;
  const bool tells_tools = request.tools.use != ToolUse::none && form.is_templates;
  const std::string tools = tells_tools ? request.tools.as_json() : "";
  auto text = bundle_.render_chat(*chat_, {.messages = request.messages,
                                           .tools = tools,
                                           .call_arguments = form.arguments,
                                           .variables = request.template_variables});
  if (!text) {
    return ApiError{.message = text.error().message, .param = "messages", .code = "invalid_value"};
  }
  text->append(MarkedText::foreign(request.begun));
  return *std::move(text);
}

ApiResult<std::vector<Prompt>> RequestPrompts::of(const CompletionRequest& request,
                                                  const PrivateRequest& hidden,
                                                  const PastAnswers& pasts,
                                                  std::uint32_t context_count) const {
  const std::size_t most = bytes_max(context_count);
  auto prompts = hidden.masked ? masked(request.kind, *hidden.masked, pasts, most)
                               : whole(request, pasts, most);
  if (!prompts) return prompts;
  // A chat has no tokens if its template writes nothing for these messages.
  if (std::ranges::any_of(*prompts, [](const Prompt& one) { return one.tokens.empty(); })) {
    return ApiError{.message = "the prompt has no tokens: send some text", .code = "invalid_value"};
  }
  if (!hidden.masked) {
    for (Prompt& prompt : *prompts) prompt.is_private = hidden.privacy.is_local;
  }
  // A request that stays on the device proposes no hints.
  if (!hidden.privacy.is_local && !request.prediction.empty()) {
    if (request.prediction.size() > most)
      return too_long(request.prediction.size(), most, "prediction");
    const auto tokens = bundle_.tokenizer().encode(MarkedText::foreign(request.prediction));
    for (Prompt& prompt : *prompts) prompt.prediction = tokens;
  }
  return prompts;
}

ApiResult<std::vector<Prompt>> RequestPrompts::whole(const CompletionRequest& request,
                                                     const PastAnswers& pasts,
                                                     std::size_t bytes_max) const {
  std::vector<Prompt> prompts;
  for (const TextPrompt& text : request.prompts) {
    if (text.text.size() > bytes_max) return too_long(text.text.size(), bytes_max);
    auto prompt = of_text(text);
    if (!prompt) return prompt.error();
    prompts.push_back(*std::move(prompt));
  }
  if (request.kind == CompletionKind::text) return prompts;
  auto chat = render(request);
  if (!chat) return chat.error();
  if (chat->size() > bytes_max) return too_long(chat->size(), bytes_max);
  auto tokens = encode_chat(pasts, *chat, bundle_.tokenizer());
  prompts.push_back({.tokens = std::move(tokens), .chat = *std::move(chat)});
  return prompts;
}

// Prompts of a request that stays here; the part before its private text is encoded separately.
ApiResult<std::vector<Prompt>> RequestPrompts::masked(CompletionKind kind,
                                                      const PrivateRequest::Masked& masked,
                                                      const PastAnswers& pasts,
                                                      std::size_t bytes_max) const {
  const auto request = parse_completion(masked.body, kind, defaults_, 0);
  if (!request) return request.error();
  const Tokenizer& tokenizer = bundle_.tokenizer();
  std::vector<Prompt> prompts;
  for (const TextPrompt& prompt : request->prompts) {
    const OpenText open = put_back(MarkedText::foreign(prompt.text), *masked.placeholders);
    if (open.text.size() > bytes_max) return too_long(open.text.size(), bytes_max);
    const OpenTokens apart = encode_apart(open, tokenizer);
    Prompt whole{.tokens = bundle_.encode_raw(""), .is_private = true};
    whole.open_count = static_cast<std::uint32_t>(whole.tokens.size()) + apart.open_count;
    whole.tokens.insert(whole.tokens.end(), apart.tokens.begin(), apart.tokens.end());
    prompts.push_back(std::move(whole));
  }
  if (kind == CompletionKind::text) return prompts;
  const auto chat = render(*request);
  if (!chat) return chat.error();
  OpenText open = put_back(*chat, *masked.placeholders);
  if (open.text.size() > bytes_max) return too_long(open.text.size(), bytes_max);
  OpenTokens apart = encode_apart(open, tokenizer);
  begin_text(apart, tokenizer);
  // Uses the chosen tokens of known answers, if the open part stays the same.
  auto tokens = encode_chat(pasts, open.text, tokenizer);
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
    prompt.tokens = bundle_.encode_raw(text.text);
  } else {
    prompt.tokens = text.tokens;
    const std::uint32_t count = bundle_.tokenizer().vocabulary_count();
    if (std::ranges::any_of(prompt.tokens, [count](std::uint32_t id) { return id >= count; })) {
      return ApiError{.message = "'prompt': token ids exceed the vocabulary of " +
                                 std::to_string(count) + " tokens",
                      .param = "prompt",
                      .code = "invalid_value"};
    }
  }
  return prompt;
}

}  // namespace edgedraft::client
