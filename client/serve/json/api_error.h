#pragma once

#include <boost/system/result.hpp>
#include <cstdint>
#include <nlohmann/json_fwd.hpp>
#include <string>

#include "shared/base/error.h"
#include "shared/net/http/http_message.h"

namespace edgedraft::client {

// Error response of the local API, in OpenAI's shape.
struct ApiError {
  unsigned status = 400;
  std::string message;
  std::string param{};  // the invalid field; empty: none
  std::string code{};   // for programs; empty: none

  bool operator==(const ApiError&) const = default;
};

template <class T>
using ApiResult = boost::system::result<T, ApiError>;

// Called by ApiResult::value() on an error.
[[noreturn]] void throw_exception_from_error(const ApiError& error, const boost::source_location&);

// How an API shows errors: OpenAI's {"error": {"message", "type", "param", "code"}}, Anthropic's
// {"type": "error", "error": {"type", "message"}} or Ollama's {"error": "message"}.
enum class ErrorShape : std::uint8_t { openai, anthropic, ollama };
std::string to_json(const ApiError& error, ErrorShape shape = ErrorShape::openai);
HttpAnswer answer_of(const ApiError& error, ErrorShape shape = ErrorShape::openai);
HttpAnswer json_answer(const nlohmann::ordered_json& json);
// Maps the failure of an answer.
ApiError api_error_of(const Error& error);

}  // namespace edgedraft::client
