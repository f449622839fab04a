#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <optional>
#include <string>

#include "shared/net/name_lookup.h"

namespace edgedraft {

// Opens TCP connections, for small messages that do not wait, to a server whose name may have
// several addresses, some of them dead.
class Dialer {
 public:
  Dialer(NameResolver resolver, std::string host, std::string port);

  // Connects to the address that answers first, waiting for it until the wait is cancelled. The
  // addresses are tried in their order, each as soon as the one before it has failed or has been
  // silent for a moment, after which it may still answer. If keep() was called since the last
  // connection, its address comes first, otherwise the next one: a machine may answer without being
  // of use.
  //
  // Requires  an executor that does one thing at a time
  boost::asio::awaitable<boost::system::error_code> connect(boost::asio::ip::tcp::socket& socket);
  // The connection that was opened last has reached the server.
  void keep() { is_kept_ = true; }

 private:
  NameResolver resolver_;
  std::string host_;
  std::string port_;
  std::optional<boost::asio::ip::tcp::endpoint> last_;  // that was connected to
  bool is_kept_ = false;
};

}  // namespace edgedraft
