#include "shared/net/connection.h"

#include <algorithm>
#include <array>
#include <boost/asio/buffer.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/this_coro.hpp>
#include <boost/asio/write.hpp>
#include <variant>

#include "shared/net/coroutines.h"

namespace edgedraft {
namespace {

namespace asio = boost::asio;
using namespace boost::asio::experimental::awaitable_operators;

constexpr std::size_t kReadBytes = 16u << 10;   // one TLS record
constexpr std::size_t kWriteBytes = 64u << 10;  // step in which write progress is measured

// Longest time between two checks of a client's certificate, since the system's clock may jump.
constexpr Duration kExpiryCheckMax = std::chrono::minutes(1);

// An exception inside || would be held back until the other halves end.
asio::awaitable<Error> caught(asio::awaitable<Error> half) {
  try {
    co_return co_await std::move(half);
  } catch (const std::exception& e) {
    co_return Error{Errc::io, e.what()};
  }
}

}  // namespace

void Signal::notify() {
  notified_ = true;
  timer_.cancel();
}

asio::awaitable<void> Signal::wait_until(Instant deadline) {
  if (!notified_) {
    timer_.expires_at(deadline);
    co_await timer_.async_wait(kToken);
  }
  notified_ = false;
}

Pump::Pump(TlsStream& stream, ProtocolPort port, Duration write_stall_timeout, std::string peer)
    : stream_(stream),
      port_(std::move(port)),
      write_stall_timeout_(write_stall_timeout),
      peer_(std::move(peer)),
      output_(stream.get_executor()),
      time_(stream.get_executor()) {}

// The first part to end cancels the others.
asio::awaitable<Error> Pump::run() {
  const auto ended = co_await (caught(read()) || caught(write()) || caught(keep_time()));
  co_return std::visit([](const Error& error) { return error; }, ended);
}

void Pump::wake() {
  output_.notify();
  time_.notify();
}

void Pump::finish(Error reason) {
  if (ending_) return;
  ending_ = std::move(reason);
  const Instant latest = Clock::now() + kFarewellTimeout;
  write_deadline_ = write_deadline_ ? std::min(*write_deadline_, latest) : latest;
  wake();
}

asio::awaitable<Error> Pump::read() {
  std::array<std::byte, kReadBytes> buffer;
  while (!ending_) {
    const auto [error, count] = co_await stream_.async_read_some(asio::buffer(buffer), kToken);
    if (error) {
      // The protocol's reason explains more than a later socket error.
      if (ending_) co_return *ending_;
      co_return explain_tls_error(stream_.native_handle(), error, peer_);
    }
    if (ending_) break;
    const auto received = port_.receive(Clock::now(), std::span(buffer).first(count));
    if (!received) finish(received.error());
    wake();
  }
  // The writer ends this once the last output is sent.
  Signal never(stream_.get_executor());
  for (;;) co_await never.wait_until(Instant::max());
}

asio::awaitable<Error> Pump::write() {
  for (;;) {
    while (port_.has_output()) {
      const Bytes output = port_.take_output();
      for (std::size_t done = 0; done < output.size(); done += kWriteBytes) {
        if (!ending_) write_deadline_ = Clock::now() + write_stall_timeout_;
        time_.notify();
        const ByteView part =
            ByteView(output).subspan(done, std::min(kWriteBytes, output.size() - done));
        const auto [error, count] =
            co_await asio::async_write(stream_, asio::buffer(part.data(), part.size()), kToken);
        if (error) {
          if (ending_) co_return *ending_;
          co_return explain_tls_error(stream_.native_handle(), error, peer_);
        }
      }
      if (!ending_) write_deadline_.reset();
    }
    if (ending_ && !port_.paces_output()) co_return *ending_;
    co_await output_.wait_until(Instant::max());
  }
}

asio::awaitable<Error> Pump::keep_time() {
  for (;;) {
    const Instant now = Clock::now();
    if (write_deadline_ && now >= *write_deadline_) {
      if (ending_) co_return *ending_;
      co_return Error{Errc::timed_out, peer_ + " does not read its data"};
    }
    const bool keeps_time = !ending_ || port_.paces_output();
    if (keeps_time && now >= port_.next_deadline()) {
      const auto ticked = port_.tick(now);
      if (!ticked && ending_) co_return *ending_;
      if (!ticked) finish({ticked.error().code, peer_ + ": " + ticked.error().message});
      output_.notify();
    }
    Instant deadline = keeps_time ? port_.next_deadline() : Instant::max();
    if (write_deadline_) deadline = std::min(deadline, *write_deadline_);
    co_await time_.wait_until(deadline);
  }
}

asio::awaitable<void> client_expired(TlsStream& stream) {
  Signal timer(stream.get_executor());
  for (;;) {
    const auto left = client_time_left(stream.native_handle());
    if (left && *left <= Duration::zero()) co_return;
    co_await timer.wait_until(left ? Clock::now() + std::min<Duration>(*left, kExpiryCheckMax)
                                   : Instant::max());
  }
}

asio::awaitable<Result<void>> shake_hands(TlsStream& stream,
                                          asio::ssl::stream_base::handshake_type side,
                                          Duration timeout, std::string peer) {
  asio::steady_timer timer(stream.get_executor(), timeout);
  const auto done = co_await (stream.async_handshake(side, kToken) || timer.async_wait(kToken));
  if (done.index() == 1) {
    co_return Error{Errc::timed_out, peer +
                                         " did not finish the TLS handshake in time: check that "
                                         "it is an edgedraft program"};
  }
  const auto [error] = std::get<0>(done);
  if (error) co_return explain_tls_error(stream.native_handle(), error, peer);
  co_return boost::system::in_place_value;
}

namespace {

asio::awaitable<void> shut_down(TlsStream& stream) {
  co_await stream.async_shutdown(kToken);
  boost::system::error_code ignored;
  stream.next_layer().shutdown(asio::ip::tcp::socket::shutdown_send, ignored);
  std::array<std::byte, kReadBytes> rest;
  for (;;) {
    const auto [error, count] =
        co_await stream.next_layer().async_read_some(asio::buffer(rest), kToken);
    if (error) co_return;
  }
}

}  // namespace

asio::awaitable<void> linger(TlsStream& stream) {
  asio::steady_timer timer(stream.get_executor(), kFarewellTimeout);
  co_await (shut_down(stream) || timer.async_wait(kToken));
}

}  // namespace edgedraft
