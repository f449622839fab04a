#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <optional>
#include <string>

#include "shared/net/name_lookup.h"

namespace edgedraft {

// Opens low-latency TCP connections to a server whose name may have several addresses, some of them
// dead.
class Dialer {
 public:
  Dialer(NameResolver resolver, std::string host, std::string port);

  // Connects to the address that answers first; waits until cancelled. Addresses are tried in
  // order, each once the previous one has failed or has been silent for a moment; the silent one
  // may still win. The last connection's address comes first if keep() was called, otherwise last:
  // a machine may answer without being usable.
  //
  // Requires  an executor that runs one handler at a time
  boost::asio::awaitable<boost::system::error_code> connect(boost::asio::ip::tcp::socket& socket);
  // Marks the last connection's address as the server's.
  void keep() { is_kept_ = true; }

 private:
  NameResolver resolver_;
  std::string host_;
  std::string port_;
  std::optional<boost::asio::ip::tcp::endpoint> last_;  // of the last connection
  bool is_kept_ = false;
};

}  // namespace edgedraft
