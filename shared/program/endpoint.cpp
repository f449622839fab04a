#include "shared/program/endpoint.h"

#include <boost/asio/ip/address.hpp>
#include <charconv>

#include "shared/base/host_port.h"

namespace edgedraft {

Result<Endpoint> parse_endpoint(std::string_view text, EndpointUse use) {
  const bool listens = use == EndpointUse::listen;
  const Error wrong{Errc::usage, "'" + std::string(text) +
                                     "' is not HOST:PORT, e.g. 127.0.0.1:7420 or [::1]:7420" +
                                     (listens ? "; port 0 selects a free port" : "")};
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return wrong;
  std::string_view host = text.substr(0, colon);
  if (host.starts_with('[') && host.ends_with(']')) {
    host = host.substr(1, host.size() - 2);
  } else if (host.find_first_of("[]:") != std::string_view::npos) {
    return wrong;
  }
  const std::string_view port = text.substr(colon + 1);
  const char* const end = port.data() + port.size();
  std::uint16_t number = 0;
  const auto parsed = std::from_chars(port.data(), end, number);
  if (host.empty() || parsed.ec != std::errc() || parsed.ptr != end) return wrong;
  if (number == 0 && !listens) return wrong;
  // The bound address must be the one that is_loopback() judged, whatever a resolver returns.
  if (listens && host == "localhost") host = "127.0.0.1";
  return Endpoint{.host = std::string(host), .port = number};
}

std::string to_string(const Endpoint& endpoint) {
  return host_port(endpoint.host, std::to_string(endpoint.port));
}

bool is_loopback(const std::string& host) {
  boost::system::error_code error;
  const auto address = boost::asio::ip::make_address(host, error);
  if (error) return false;
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6())
        .is_loopback();
  }
  return address.is_loopback();
}

}  // namespace edgedraft
