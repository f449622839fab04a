#pragma once

#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace edgedraft {

using HttpHeaders = std::vector<std::pair<std::string, std::string>>;

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // path of the target, undecoded
  std::string query;   // after the target's '?', undecoded
  HttpHeaders headers;
  std::string body;
  std::shared_ptr<const void> body_share{};  // holds the body's share of the server's limit

  // First header of that name, ignoring case.
  std::optional<std::string_view> header(std::string_view name) const;
};

struct HttpAnswer {
  unsigned status = 200;
  std::string content_type;
  std::string body;
  HttpHeaders headers{};  // except type and length

  void add(const HttpHeaders& more) { headers.insert(headers.end(), more.begin(), more.end()); }
};

}  // namespace edgedraft
