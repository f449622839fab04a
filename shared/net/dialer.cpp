#include "shared/net/dialer.h"

#ifdef __linux__
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#endif

#include <algorithm>
#include <boost/asio/error.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <utility>
#include <vector>

#include "shared/base/clock.h"
#include "shared/net/connection.h"

namespace edgedraft {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

// Above the round trip of nearly all links; RFC 8305 recommends it.
constexpr Duration kHeadStart = std::chrono::milliseconds(250);

// Addresses tried in parallel. Handlers of the losers outlive the coroutine.
struct Race {
  explicit Race(const asio::any_io_executor& executor) : changed(executor) {}

  Signal changed;
  std::optional<std::size_t> winner;
  std::size_t failed_count = 0;
  boost::system::error_code error = asio::error::host_not_found;  // of the last attempt
};

// Disables Nagle's algorithm: a draft must not wait for acknowledgements. Also bounds unsent data
// in the socket: data still queued on our side can be replaced or dropped.
void keep_short(tcp::socket& socket) {
  boost::system::error_code ignored;
  socket.set_option(tcp::no_delay(true), ignored);
#ifdef TCP_NOTSENT_LOWAT
  const int bytes = 4096;  // about a tree of 250 hints
  // Optional: without it hints queue behind older hints.
  (void)setsockopt(socket.native_handle(), IPPROTO_TCP, TCP_NOTSENT_LOWAT, &bytes, sizeof bytes);
#endif
}

}  // namespace

Dialer::Dialer(NameResolver resolver, std::string host, std::string port)
    : resolver_(std::move(resolver)), host_(std::move(host)), port_(std::move(port)) {}

asio::awaitable<boost::system::error_code> Dialer::connect(tcp::socket& socket) {
  auto [not_found, endpoints] = co_await look_up(resolver_, host_, port_);
  if (not_found) co_return not_found;
  if (last_) {
    auto first = std::ranges::find(endpoints, *last_);
    if (first != endpoints.end() && !is_kept_) ++first;
    std::rotate(endpoints.begin(), first, endpoints.end());
  }
  const auto race = std::make_shared<Race>(socket.get_executor());
  std::vector<tcp::socket> sockets;
  sockets.reserve(endpoints.size());  // they must not move while they connect
  for (const tcp::endpoint& endpoint : endpoints) {
    tcp::socket& next = sockets.emplace_back(socket.get_executor());
    next.async_connect(endpoint,
                       [race, number = sockets.size() - 1](const boost::system::error_code& error) {
                         if (error) {
                           ++race->failed_count;
                           race->error = error;
                         } else if (!race->winner) {
                           race->winner = number;
                         }
                         race->changed.notify();
                       });
    const std::size_t failed_before = race->failed_count;
    const Instant patience = Clock::now() + kHeadStart;
    while (!race->winner && race->failed_count == failed_before && Clock::now() < patience) {
      co_await race->changed.wait_until(patience);
    }
    if (race->winner) break;
  }
  while (!race->winner && race->failed_count < sockets.size()) {
    co_await race->changed.wait_until(Instant::max());
  }
  if (!race->winner) co_return race->error;
  socket = std::move(sockets[*race->winner]);
  keep_short(socket);
  last_ = endpoints[*race->winner];
  is_kept_ = false;
  co_return boost::system::error_code();
}

}  // namespace edgedraft
