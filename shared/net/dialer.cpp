#include "shared/net/dialer.h"

#ifdef __linux__
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#endif

#include <algorithm>
#include <boost/asio/error.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <chrono>
#include <cstddef>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

#include "shared/net/connection.h"
#include "shared/net/coroutines.h"

namespace edgedraft {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;

// Shared by the lookup thread and the waiting coroutine.
struct Lookup {
  std::mutex mutex;
  asio::steady_timer* waiting = nullptr;  // null: the coroutine has stopped waiting
  bool done = false;
  boost::system::error_code error;
  Endpoints found;

  void tell(boost::system::error_code why_not, Endpoints endpoints,
            const std::shared_ptr<Lookup>& self) {
    const std::scoped_lock lock(mutex);
    done = true;
    error = why_not;
    found = std::move(endpoints);
    if (waiting == nullptr) return;
    // While a coroutine waits, its context exists.
    asio::post(waiting->get_executor(), [self] {
      const std::scoped_lock own(self->mutex);
      if (self->waiting != nullptr) self->waiting->cancel();
    });
  }
};

class Waiting {
 public:
  Waiting(Lookup& lookup, asio::steady_timer& timer) : lookup_(lookup) { set(&timer); }
  ~Waiting() { set(nullptr); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;

 private:
  void set(asio::steady_timer* timer) {
    const std::scoped_lock lock(lookup_.mutex);
    lookup_.waiting = timer;
  }
  Lookup& lookup_;
};

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
  boost::system::error_code error = asio::error::host_not_found;  // error of the last attempt
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

Duration back_off_delay(const BackOff& options, std::uint32_t attempt, Random& random) {
  // Beyond this every ceiling exceeds any sensible maximum; the bound keeps the shift defined.
  constexpr std::uint32_t kDoublingsMax = 20;
  const Duration ceiling =
      std::min(options.max, options.min * (1u << std::min(attempt, kDoublingsMax)));
  const double share = 0.5 + 0.5 * random.uniform();
  return std::max(options.min, std::chrono::duration_cast<Duration>(ceiling * share));
}

Endpoints resolve_by_system(const std::string& host, const std::string& port,
                            boost::system::error_code& error) {
  asio::io_context io;
  Endpoints endpoints;
  for (const auto& entry : tcp::resolver(io).resolve(host, port, error)) {
    endpoints.push_back(entry.endpoint());
  }
  return endpoints;
}

asio::awaitable<std::pair<boost::system::error_code, Endpoints>> look_up(NameResolver resolver,
                                                                         std::string host,
                                                                         std::string port) {
  boost::system::error_code no_number;
  asio::ip::make_address(host, no_number);
  if (!no_number) {
    boost::system::error_code error;
    Endpoints endpoints = resolve_by_system(host, port, error);
    co_return std::pair(error, std::move(endpoints));
  }
  const auto lookup = std::make_shared<Lookup>();
  asio::steady_timer timer(co_await asio::this_coro::executor,
                           asio::steady_timer::time_point::max());
  const Waiting waiting(*lookup, timer);
  try {
    std::thread([lookup, resolver = std::move(resolver), host = std::move(host),
                 port = std::move(port)] {
      boost::system::error_code error;
      Endpoints endpoints;
      try {
        endpoints = resolver(host, port, error);
      } catch (const std::exception&) {  // nothing above could catch it
        error = make_error_code(boost::system::errc::not_enough_memory);
      }
      lookup->tell(error, std::move(endpoints), lookup);
    }).detach();
  } catch (const std::system_error&) {
    co_return std::pair(make_error_code(boost::system::errc::resource_unavailable_try_again),
                        Endpoints());
  }
  co_await timer.async_wait(kToken);
  const std::scoped_lock lock(lookup->mutex);
  if (!lookup->done)
    co_return std::pair(make_error_code(asio::error::operation_aborted), Endpoints());
  co_return std::pair(lookup->error, std::move(lookup->found));
}

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
