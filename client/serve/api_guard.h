#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/serve/json/api_error.h"
#include "shared/base/error.h"
#include "shared/net/http/http_message.h"

namespace edgedraft::client {

// Checks a page's origin: SCHEME://HOST[:PORT], as browsers send it, or "*" for all. Any other text
// would never match a request.
// Errors    usage; the caller names the option
Result<void> check_origin(const std::string& text);
// Checks a host name of this machine. It has no port, because requests are compared without theirs.
Result<void> check_host_name(const std::string& text);

// Decides access to the local API. A page open in the user's browser can send requests to this
// machine. Requests under its own origin, and those disguised as local by DNS rebinding, are
// refused.
class ApiGuard {
 public:
  struct Options {
    std::string key;                         // empty: no key is required
    std::vector<std::string> allow_origins;  // "https://chat.example"; "*": any page
    std::vector<std::string> allow_hosts;    // host names of this machine
  };
  explicit ApiGuard(Options options) : options_(std::move(options)) {}

  // Returns why the request is refused; empty if it is allowed. Monitoring pages need no key.
  std::optional<ApiError> refusal(const HttpRequest& request, bool needs_key) const;
  // CORS headers of every answer to that request, including refusals.
  HttpHeaders headers(const HttpRequest& request) const;
  // Answers a browser's preflight request. Requires  an allowed origin
  HttpAnswer preflight(const HttpRequest& request) const;

 private:
  bool allows_host(std::string_view host) const;
  bool allows_origin(std::string_view origin, std::string_view host) const;
  bool has_key(const HttpRequest& request) const;

  Options options_;
};

}  // namespace edgedraft::client
