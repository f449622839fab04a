#include "shared/net/listening.h"

#include <boost/asio/error.hpp>
#include <exception>

#include "shared/base/host_port.h"

namespace edgedraft {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

// Omits the source location that what() of the library's exceptions contains.
std::string reason_of(const boost::system::error_code& error) {
  if (error == asio::error::address_in_use) return "the address is in use; give another port";
  return error.message();
}

void bind_to(tcp::acceptor& acceptor, const std::string& address, std::uint16_t port) {
  boost::system::error_code error;
  const auto check = [&] {
    if (error) throw ListenError(host_port(address, std::to_string(port)), error);
  };
  const auto endpoints = tcp::resolver(acceptor.get_executor())
                             .resolve(address, std::to_string(port), tcp::resolver::passive, error);
  check();
  const tcp::endpoint endpoint = endpoints.begin()->endpoint();
  acceptor.open(endpoint.protocol(), error);
  check();
  acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  check();
  acceptor.bind(endpoint, error);
  check();
}

}  // namespace

ListenError::ListenError(const std::string& place, const boost::system::error_code& error)
    : system_error(error), sentence_(place + ": " + reason_of(error)) {}

void listen_on(tcp::acceptor& acceptor, const std::string& address, std::uint16_t port) {
  bind_to(acceptor, address, port);
  boost::system::error_code error;
  acceptor.listen(tcp::acceptor::max_listen_connections, error);
  if (error) throw ListenError(host_port(address, std::to_string(port)), error);
}

void check_listenable(const std::string& address, std::uint16_t port) {
  asio::io_context io;
  tcp::acceptor acceptor(io);
  bind_to(acceptor, address, port);
}

void run_all(asio::io_context& io, const std::function<void(const std::string& what)>& on_failure) {
  for (;;) {
    try {
      io.run();
      return;
    } catch (const std::exception& e) {
      // The handler that threw is done, so this loop ends.
      on_failure(e.what());
    }
  }
}

}  // namespace edgedraft
