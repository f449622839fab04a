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
  std::string path;    // of the target, as it was sent
  std::string query;   // behind its '?', as it was sent
  HttpHeaders headers;
  std::string body;
  std::shared_ptr<const void> body_share{};  // of what the server bounds, as long as it lives

  // The first header of that name, in any spelling of upper and lower case.
  std::optional<std::string_view> header(std::string_view name) const;
};

struct HttpAnswer {
  unsigned status = 200;
  std::string content_type;
  std::string body;
  HttpHeaders headers{};  // besides type and length

  void add(const HttpHeaders& more) { headers.insert(headers.end(), more.begin(), more.end()); }
};

}  // namespace edgedraft
