#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

namespace edgedraft {

struct HttpRequest {
  std::string method;  // "GET"
  std::string path;    // of the target, as it was sent
  std::string query;   // behind its '?', as it was sent
  std::vector<std::pair<std::string, std::string>> headers;
  std::string body;

  // The first header of that name, in any spelling of upper and lower case.
  std::optional<std::string_view> header(std::string_view name) const;
};

struct HttpAnswer {
  unsigned status = 200;
  std::string content_type;
  std::string body;
  std::vector<std::pair<std::string, std::string>> headers{};  // besides type and length
};

}  // namespace edgedraft
