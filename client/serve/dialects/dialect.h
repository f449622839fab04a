#pragma once

#include <initializer_list>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/serve/answer/answer_format.h"
#include "client/serve/dialects/past_responses.h"
#include "client/serve/json/api_error.h"
#include "client/serve/request/completion_request.h"
#include "shared/net/http/http_message.h"

// Other APIs than OpenAI's chat completions. A request is translated into a chat completion, so
// privacy, tools and limits apply to all of them, and the answer is written in the API's own shape.
namespace edgedraft::client {

// A request as a chat or text completion.
struct Translated {
  std::string body;
  CompletionKind kind = CompletionKind::chat;
  FormatMaker make_format{};
  std::optional<HttpAnswer> at_once{};  // the answer, if it needs no model
  // Fields that have another name in the API: the completion's, then the client's.
  std::vector<std::pair<std::string, std::string>> renamed{};

  // Names the client's field in an error of the translated request.
  ApiError renamed_in(ApiError error) const;
};

// Where a translation finds more than the request's body.
struct TranslationContext {
  const std::string& model;
  PastResponses& pasts;
};

using Translate = ApiResult<Translated> (*)(std::string_view body,
                                            const TranslationContext& context);

// Errors    of each: a field that is invalid, or that would change the answer and is not supported
ApiResult<Translated> translate_response(std::string_view body, const TranslationContext& context);
ApiResult<Translated> translate_message(std::string_view body, const TranslationContext& context);
ApiResult<Translated> translate_ollama_chat(std::string_view body,
                                            const TranslationContext& context);
ApiResult<Translated> translate_ollama_generate(std::string_view body,
                                                const TranslationContext& context);

// Reads a request of another API and builds the completion. The first error is kept.
class Translation {
 public:
  using Json = nlohmann::ordered_json;
  explicit Translation(std::string_view body);

  const Json& request() const { return request_; }
  // Returns a field of the request; null if it is missing or null.
  const Json* find(const char* name) const { return member(request_, name); }
  // Returns a member; null if `object` is no object, or the member is missing or null.
  static const Json* member(const Json& object, const char* name);
  // Returns a text member; empty if it is missing or no text.
  static std::string text_member(const Json& object, const char* name);

  // Copies a field, unless it is null; `as` is its name in the completion.
  void copy(const char* name, const char* as = nullptr);
  void set(const char* name, Json value) { completion_[name] = std::move(value); }
  void refuse(const std::string& field, const std::string& what);
  // Refuses the fields that are present and neither null nor false.
  void refuse_present(std::initializer_list<const char*> names, const std::string& why);
  // Returns a text, or the joined texts of an array of parts of these types.
  std::string text_of(const Json& content, const std::string& path,
                      std::initializer_list<std::string_view> types);
  void add_message(Json message) { messages_.push_back(std::move(message)); }
  Json& messages() { return messages_; }

  const std::optional<ApiError>& error() const { return error_; }
  // Returns the completion with its messages, and takes those out.
  ApiResult<Translated> finish(FormatMaker make_format, CompletionKind kind = CompletionKind::chat);

 private:
  Json request_;
  Json completion_ = Json::object();
  Json messages_ = Json::array();
  std::vector<std::pair<std::string, std::string>> renamed_;
  std::optional<ApiError> error_;
};

// {"type": "function", "function": ...} as chat completions take it.
nlohmann::ordered_json function_tool(std::string name, const nlohmann::ordered_json* description,
                                     const nlohmann::ordered_json* parameters,
                                     const nlohmann::ordered_json* strict = nullptr);
nlohmann::ordered_json function_choice(const std::string& name);
nlohmann::ordered_json function_call(const std::string& id, const std::string& name,
                                     const std::string& arguments);
// Parses a call's arguments; text that is no object becomes {"arguments": text}.
nlohmann::ordered_json arguments_object(const std::string& arguments);

}  // namespace edgedraft::client
