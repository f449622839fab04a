#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/system_error.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "shared/base/clock.h"

// What both kinds of servers share: an address to listen on, and threads for who comes.
namespace edgedraft {

// Why an address cannot be listened on; what() is a sentence for the user.
class ListenError : public boost::system::system_error {
 public:
  // `place` is HOST:PORT.
  ListenError(const std::string& place, const boost::system::error_code& error);
  const char* what() const noexcept override { return sentence_.c_str(); }

 private:
  std::string sentence_;
};

// Opens the acceptor there; port 0 takes a free one. Errors    throws ListenError
void listen_on(boost::asio::ip::tcp::acceptor& acceptor, const std::string& address,
               std::uint16_t port);
// Whether it could be opened there now. Nobody can connect meanwhile. Errors    as listen_on()
void check_listenable(const std::string& address, std::uint16_t port);

// When accepting fails for want of file descriptors, trying again at once would only spin.
inline constexpr Duration kAcceptPause = std::chrono::milliseconds(50);

// Runs what is to be run until the context stops. What something throws ends nothing else: it is
// told to `on_failure`, and the rest goes on.
void run_all(boost::asio::io_context& io,
             const std::function<void(const std::string& what)>& on_failure);

}  // namespace edgedraft
