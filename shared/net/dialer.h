#pragma once

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "shared/base/clock.h"
#include "shared/base/random.h"

namespace edgedraft {

struct BackOff {
  Duration min = std::chrono::milliseconds(100);
  Duration max = std::chrono::seconds(30);
};

// Wait before connection attempt `attempt` (0, 1, ...). The ceiling doubles from `min` to `max`;
// the wait is drawn from its upper half, so that many clients do not return at once.
Duration back_off_delay(const BackOff& options, std::uint32_t attempt, Random& random);

using Endpoints = std::vector<boost::asio::ip::tcp::endpoint>;
// Endpoints of a host and a port; each is a name or a number.
using NameResolver = std::function<Endpoints(const std::string& host, const std::string& port,
                                             boost::system::error_code& error)>;

// Uses the system's resolver, which may take half a minute without a network.
Endpoints resolve_by_system(const std::string& host, const std::string& port,
                            boost::system::error_code& error);

// Returns numeric addresses at once. For a name, runs `resolver` in a thread and waits until the
// wait is cancelled or the executor's context is destroyed. The system's resolver cannot be
// interrupted, so the thread is then left to finish alone.
//
// Requires  an executor that runs one handler at a time
boost::asio::awaitable<std::pair<boost::system::error_code, Endpoints>> look_up(
    NameResolver resolver, std::string host, std::string port);

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
  std::optional<boost::asio::ip::tcp::endpoint> last_;  // endpoint of the last connection
  bool is_kept_ = false;
};

}  // namespace edgedraft
