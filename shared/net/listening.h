#pragma once

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/system/system_error.hpp>
#include <chrono>
#include <cstdint>
#include <functional>
#include <string>

#include "shared/base/clock.h"

// Listening and worker threads of both kinds of servers.
namespace edgedraft {

// An address cannot be listened on; what() is a sentence for the user.
class ListenError : public boost::system::system_error {
 public:
  // `place` is HOST:PORT.
  ListenError(const std::string& place, const boost::system::error_code& error);
  const char* what() const noexcept override { return sentence_.c_str(); }

 private:
  std::string sentence_;
};

// Opens the acceptor; port 0 picks a free one. Errors    throws ListenError
void listen_on(boost::asio::ip::tcp::acceptor& acceptor, const std::string& address,
               std::uint16_t port);
// Checks that listen_on() would succeed now, without accepting clients. Errors    as listen_on()
void check_listenable(const std::string& address, std::uint16_t port);

// Pause after accepting fails for lack of file descriptors; an immediate retry would only spin.
inline constexpr Duration kAcceptPause = std::chrono::milliseconds(50);

// Runs handlers until the context stops. Passes exceptions to `on_failure` and continues.
void run_all(boost::asio::io_context& io,
             const std::function<void(const std::string& what)>& on_failure);

}  // namespace edgedraft
