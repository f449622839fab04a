#include "client/serve/api_guard.h"

#include <algorithm>
#include <boost/asio/ip/address.hpp>
#include <cctype>
#include <charconv>
#include <cstdint>

#include "shared/base/bytes.h"
#include "shared/protocol/constant_time.h"

namespace edgedraft::client {
namespace {

std::string lower(std::string_view text) {
  std::string result(text);
  std::ranges::transform(result, result.begin(), [](unsigned char c) { return std::tolower(c); });
  return result;
}

// Removes port and brackets: "name:7430", "[::1]:7430" or "name".
std::string host_name(std::string_view host) {
  if (host.starts_with('[')) {
    const std::size_t end = host.find(']');
    return end == std::string_view::npos ? "" : lower(host.substr(1, end - 1));
  }
  return lower(host.substr(0, host.find(':')));
}

bool is_address(const std::string& name) {
  boost::system::error_code error;
  (void)boost::asio::ip::make_address(name, error);
  return !error;
}

// Characters of hosts and schemes; browsers send other letters as xn--.
bool is_plain_name(std::string_view text) {
  return !text.empty() && std::ranges::all_of(text, [](unsigned char c) {
    return std::isalnum(c) != 0 || c == '-' || c == '.' || c == '_';
  });
}

// Browsers omit the scheme's default port.
bool is_sent_port(std::string_view port, const std::string& scheme) {
  std::uint16_t number = 0;
  (void)std::from_chars(port.data(), port.data() + port.size(), number);
  if (number == 0 || std::to_string(number) != port) return false;
  return !(scheme == "http" && number == 80) && !(scheme == "https" && number == 443);
}

bool is_origin(std::string_view text) {
  // Browsers send these for pages without a host.
  if (text == "null" || text == "file://") return true;
  const std::size_t scheme_end = text.find("://");
  if (scheme_end == std::string_view::npos) return false;
  const std::string scheme = lower(text.substr(0, scheme_end));
  std::string_view host = text.substr(scheme_end + 3);
  const std::size_t last = host.find_last_of(":]");
  if (last != std::string_view::npos && host[last] == ':') {
    if (!is_sent_port(host.substr(last + 1), scheme)) return false;
    host = host.substr(0, last);
  }
  const bool bracketed = host.starts_with('[') && host.ends_with(']');
  return is_plain_name(scheme) &&
         (bracketed ? is_address(std::string(host.substr(1, host.size() - 2)))
                    : is_plain_name(host));
}

}  // namespace

Result<void> check_origin(const std::string& text) {
  if (text == "*" || is_origin(text)) return {};
  return usage_error(
      "'" + text +
      "': expected an origin as browsers send it, SCHEME://HOST, with :PORT only if it is not the "
      "scheme's default and without a path, e.g. https://chat.example; or *");
}

Result<void> check_host_name(const std::string& text) {
  if (is_plain_name(text)) return {};
  return usage_error("'" + text +
                     "': expected a host name without scheme and port, e.g. box.lan; IP addresses "
                     "are always allowed");
}

// Rebinding needs a name that its owner can point anywhere; an address is safe.
bool ApiGuard::allows_host(std::string_view host) const {
  const std::string name = host_name(host);
  if (is_address(name) || name == "localhost" || name.ends_with(".localhost")) return true;
  return std::ranges::any_of(options_.allow_hosts,
                             [&](const std::string& allowed) { return lower(allowed) == name; });
}

bool ApiGuard::allows_origin(std::string_view origin, std::string_view host) const {
  const std::string asked = lower(origin);
  // The program's own page.
  if (asked == "http://" + lower(host)) return true;
  return std::ranges::any_of(options_.allow_origins, [&](const std::string& allowed) {
    return allowed == "*" || lower(allowed) == asked;
  });
}

bool ApiGuard::has_key(const HttpRequest& request) const {
  if (options_.key.empty()) return true;
  std::string_view sent;
  if (const auto header = request.header("Authorization")) {
    constexpr std::string_view kScheme = "bearer ";
    if (lower(header->substr(0, kScheme.size())) == kScheme) sent = header->substr(kScheme.size());
  } else if (const auto key = request.header("X-Api-Key")) {
    sent = *key;
  }
  return equal_in_constant_time(as_byte_view(sent), as_byte_view(options_.key));
}

std::optional<ApiError> ApiGuard::refusal(const HttpRequest& request, bool needs_key) const {
  const std::string_view host = request.header("Host").value_or("");
  if (!allows_host(host)) {
    return ApiError{
        .status = 403,
        .message = "the host name '" + std::string(host) +
                   "' is not allowed: to allow it, start the endpoint with --allow-host",
        .code = "host_not_allowed"};
  }
  const auto origin = request.header("Origin");
  if (origin && !allows_origin(*origin, host)) {
    return ApiError{
        .status = 403,
        .message = "pages of '" + std::string(*origin) +
                   "' may not use this endpoint: to allow them, start it with --allow-origin",
        .code = "origin_not_allowed"};
  }
  // A browser's preflight request carries no key.
  if (!needs_key || (origin && request.method == "OPTIONS") || has_key(request)) {
    return std::nullopt;
  }
  return ApiError{
      .status = 401,
      .message = "this endpoint requires its API key: send it as 'Authorization: Bearer KEY'",
      .code = "invalid_api_key"};
}

HttpHeaders ApiGuard::headers(const HttpRequest& request) const {
  const auto origin = request.header("Origin");
  if (!origin || !allows_origin(*origin, request.header("Host").value_or(""))) return {};
  return {{"Access-Control-Allow-Origin", std::string(*origin)},
          {"Access-Control-Expose-Headers",
           "X-Conversation-Id, X-Edgedraft-State, X-Edgedraft-Unenforced"},
          {"Vary", "Origin"}};
}

HttpAnswer ApiGuard::preflight(const HttpRequest& request) const {
  const auto wanted = request.header("Access-Control-Request-Headers");
  return {.status = 204,
          .content_type = "text/plain",
          .body = {},
          .headers = {{"Access-Control-Allow-Methods", "GET, POST, PUT, DELETE, OPTIONS"},
                      {"Access-Control-Allow-Headers", std::string(wanted.value_or("*"))},
                      {"Access-Control-Max-Age", "600"}}};
}

}  // namespace edgedraft::client
