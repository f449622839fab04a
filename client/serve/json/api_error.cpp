#include "client/serve/json/api_error.h"

#include <nlohmann/json.hpp>

#include "client/json_line.h"

namespace edgedraft::client {
namespace {

std::string type_of(unsigned status) {
  switch (status) {
    case 401:
      return "authentication_error";
    case 403:
      return "permission_error";
    case 404:
      return "not_found_error";
    default:
      return status < 500 ? "invalid_request_error" : "server_error";
  }
}

std::string anthropic_type_of(unsigned status) {
  switch (status) {
    case 413:
      return "request_too_large";
    case 503:
      return "overloaded_error";
    default:
      return status < 500 ? type_of(status) : "api_error";
  }
}

unsigned status_of(Errc code) {
  switch (code) {
    case Errc::usage:
    case Errc::context_full:
    case Errc::unsupported:
      return 400;
    case Errc::link_down:
    case Errc::unknown_host:
    case Errc::timed_out:
    case Errc::refused:
    case Errc::session_unknown:
      return 503;
    case Errc::unauthorized:
    case Errc::untrusted:
    case Errc::mismatch:
    case Errc::version:
    case Errc::protocol:
    case Errc::bad_message:
    case Errc::frame_truncated:
    case Errc::frame_too_large:
      return 502;
    default:
      return 500;
  }
}

}  // namespace

void throw_exception_from_error(const ApiError& error, const boost::source_location&) {
  throw Failure({Errc::usage, error.message});
}

std::string to_json(const ApiError& error, ErrorShape shape) {
  const auto or_null = [](const std::string& text) {
    return text.empty() ? nlohmann::json() : nlohmann::json(text);
  };
  nlohmann::json body;
  if (shape == ErrorShape::ollama) {
    body = {{"error", error.message}};
  } else if (shape == ErrorShape::anthropic) {
    body = {{"type", "error"},
            {"error", {{"type", anthropic_type_of(error.status)}, {"message", error.message}}}};
  } else {
    body = {{"error",
             {{"message", error.message},
              {"type", type_of(error.status)},
              {"param", or_null(error.param)},
              {"code", or_null(error.code)}}}};
  }
  // The message may quote a client's text, which may be invalid UTF-8.
  return body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

HttpAnswer answer_of(const ApiError& error, ErrorShape shape) {
  HttpAnswer answer{
      .status = error.status, .content_type = "application/json", .body = to_json(error, shape)};
  if (error.status == 401) answer.headers.emplace_back("WWW-Authenticate", "Bearer");
  if (error.status == 503) answer.headers.emplace_back("Retry-After", "1");
  return answer;
}

HttpAnswer json_answer(const nlohmann::ordered_json& json) {
  return {.content_type = "application/json", .body = json_line(json)};
}

ApiError api_error_of(const Error& error) {
  return {.status = status_of(error.code),
          .message = error.message,
          .code = error.code == Errc::context_full ? "context_length_exceeded"
                                                   : std::string(to_string(error.code))};
}

}  // namespace edgedraft::client
