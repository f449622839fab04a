#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "client/serve/api_error.h"
#include "shared/base/error.h"
#include "shared/net/http/http_message.h"

namespace edgedraft {

// What a page's origin can be: SCHEME://HOST[:PORT], as browsers send it, or "*", all of them. No
// request matches anything else.
// Errors    usage saying so; the caller names the option
Result<void> check_origin(const std::string& text);
// The same of a name that a machine is called by: without a port, which a request's is compared
// without.
Result<void> check_host_name(const std::string& text);

// Decides who may use the local API. A page that the user has open elsewhere can send requests to
// this machine, under its own name or, by DNS rebinding, as if it came from here; neither gets in.
class ApiGuard {
 public:
  struct Options {
    std::string key;                         // empty: none is asked for
    std::vector<std::string> allow_origins;  // "https://chat.example"; "*": any page
    std::vector<std::string> allow_hosts;    // names that this machine is called by
  };
  explicit ApiGuard(Options options) : options_(std::move(options)) {}

  // Why the request is refused; nothing if it may go on. A page for monitors needs no key.
  std::optional<ApiError> refusal(const HttpRequest& request, bool needs_key) const;
  // What a browser wants to see in every answer to that request, a refusal too.
  HttpHeaders headers(const HttpRequest& request) const;
  // The answer to a browser that asks first whether it may. Requires  an origin that is allowed
  HttpAnswer preflight(const HttpRequest& request) const;

 private:
  bool allows_host(std::string_view host) const;
  bool allows_origin(std::string_view origin, std::string_view host) const;
  bool has_key(const HttpRequest& request) const;

  Options options_;
};

}  // namespace edgedraft
