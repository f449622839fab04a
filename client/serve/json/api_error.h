#pragma once

#include <boost/system/result.hpp>
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

// {"error": {"message", "type", "param", "code"}}
std::string to_json(const ApiError& error);
HttpAnswer answer_of(const ApiError& error);
HttpAnswer json_answer(const nlohmann::ordered_json& json);
// Maps the failure of an answer.
ApiError api_error_of(const Error& error);

}  // namespace edgedraft::client
