#include "shared/net/name_lookup.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/this_coro.hpp>
#include <memory>
#include <mutex>
#include <system_error>
#include <thread>

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

}  // namespace

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

}  // namespace edgedraft
