#include "shared/net/listener.h"

#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/network_v6.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/strand.hpp>
#include <condition_variable>
#include <exception>
#include <map>
#include <mutex>
#include <thread>
#include <variant>
#include <vector>

#include "shared/base/exceptions.h"
#include "shared/base/host_port.h"
#include "shared/net/connection.h"
#include "shared/net/coroutines.h"
#include "shared/net/listening.h"
#include "shared/net/receipt_signature.h"

namespace edgedraft {
namespace {

namespace asio = boost::asio;
using namespace asio::experimental::awaitable_operators;
using asio::ip::tcp;

// Interval at which drain() checks for finished clients.
constexpr Duration kDrainStep = std::chrono::milliseconds(50);

// Origin for limits per address: IPv6 addresses of one /64 count as one, because a single host may
// own them all.
std::string origin_of(const asio::ip::address& address) {
  if (address.is_v4()) return address.to_string();
  if (address.to_v6().is_v4_mapped()) {  // from a dual-stack listener
    return asio::ip::make_address_v4(asio::ip::v4_mapped, address.to_v6()).to_string();
  }
  return asio::ip::network_v6(address.to_v6(), 64).canonical().to_string();
}

// One client, from accept to close. Lives on its strand.
struct Connection {
  Connection(std::uint64_t connection_id, std::string where, tcp::socket socket,
             TlsContext& context, const ListenerOptions& options)
      : id(connection_id),
        origin(std::move(where)),
        stream(std::move(socket), context),
        protocol(options.protocol, Clock::now()) {}

  std::uint64_t id;
  std::string origin;
  std::atomic<bool> stranger = true;  // until it has signed in
  bool pushed_out = false;            // guarded by the listener's mutex
  TlsStream stream;
  ServerProtocol protocol;
  PeerInfo peer;
  std::optional<Pump> pump;  // set from the handshake on
  // Shared with the application's copies; the connection's own is the first.
  std::optional<ReplyHandle> reply;
  Instant last_work{};  // last request or reply
  WireBytes counted{};  // already included in the listener's stats

  // Sends the protocol's output and ends the connection if the protocol is over.
  void after_protocol_call(const Error& reason) {
    last_work = Clock::now();
    if (protocol.signed_in()) stranger = false;
    if (!pump) return;
    if (protocol.finished()) pump->finish(protocol.failure().value_or(reason));
    pump->wake();
  }
};

// Counts messages of one kind, or their bytes. Any thread counts `given`; the strand counts queued,
// taken and gone (in the socket).
class Backlog {
 public:
  explicit Backlog(std::uint32_t full) : full_(full) {}

  void give(std::uint32_t count = 1) { given_ += count; }
  void queue(std::uint32_t count = 1) { queued_ += count; }
  // Takes all but `waiting` of the queued messages.
  void take(std::uint32_t waiting) { taken_ = queued_ - waiting; }
  // Notes that the taken messages are gone. Returns whether a thread may have seen a full backlog
  // that now has space.
  bool note_gone() {
    const std::uint32_t gone_before = gone_;
    gone_ = taken_;
    // Load `given_` only after storing `gone_`. A thread that read the old `gone_` had already
    // incremented `given_`, so its message counts here and the thread is woken.
    return gone_ != gone_before && given_ - gone_before >= full_;
  }
  std::uint32_t count() const { return given_ - gone_; }

 private:
  std::uint32_t full_;
  std::atomic<std::uint32_t> given_ = 0;
  std::uint32_t queued_ = 0;
  std::uint32_t taken_ = 0;
  std::atomic<std::uint32_t> gone_ = 0;
};

}  // namespace

// Outlives the connection and the listener: touches neither after end() has detached them.
struct ReplyHandle::Target {
  Target(std::uint64_t connection_id, Connection& c) : id(connection_id), connection(&c) {}

  std::uint64_t id;
  std::mutex mutex;
  Connection* connection;  // cleared on its strand when it ends
  Backlog verdicts{kBacklogFull};
  Backlog bytes{kBacklogBytesFull};   // a run's activations
  Backlog chunks{kChunkBacklogFull};  // a prompt's activations

  Connection* get() {
    const std::scoped_lock lock(mutex);
    return connection;
  }
  void cut_off() {
    const std::scoped_lock lock(mutex);
    connection = nullptr;
  }

  // Runs `act(protocol)` on the connection's strand while the connection lives.
  template <class Act>
  static void post(const std::shared_ptr<Target>& target, Act act, Error reason) {
    const std::scoped_lock lock(target->mutex);
    if (!target->connection) return;
    asio::post(target->connection->stream.get_executor(),
               [target, act = std::move(act), reason = std::move(reason)]() mutable {
                 Connection* alive = target->get();
                 if (!alive) return;
                 try {
                   act(alive->protocol);
                 } catch (const std::exception& e) {
                   // A failed answer ends its own connection only.
                   alive->protocol.fail({Errc::io, e.what()});
                 }
                 alive->after_protocol_call(reason);
               });
  }
  // Posts rows that count as `count` in that backlog of the target.
  static void post_rows(const std::shared_ptr<Target>& target, Backlog& backlog,
                        std::uint32_t count, wire::Activations rows) {
    backlog.give(count);
    post(target,
         [rows = std::move(rows), count, &backlog](ServerProtocol& s) mutable {
           s.activations(std::move(rows));
           backlog.queue(count);
         },
         {Errc::timed_out, "the client does not read its answers"});
  }
};

std::uint64_t ReplyHandle::connection_id() const {
  return target_->id;
}

void ReplyHandle::accept(wire::Welcome welcome, std::uint32_t padded_row_bytes) const {
  Target::post(target_,
               [w = std::move(welcome), padded_row_bytes](ServerProtocol& s) mutable {
                 s.accept(std::move(w), padded_row_bytes);
               },
               {});
}

void ReplyHandle::verdict(wire::Verdict verdict) const {
  target_->verdicts.give();
  Target::post(target_,
               [v = std::move(verdict), target = target_.get()](ServerProtocol& s) mutable {
                 s.verdict(std::move(v));
                 target->verdicts.queue();
               },
               {});
}

std::uint32_t ReplyHandle::backlog() const {
  return target_->verdicts.count();
}

std::uint32_t ReplyHandle::backlog_bytes() const {
  return target_->bytes.count();
}

std::uint32_t ReplyHandle::chunk_backlog() const {
  return target_->chunks.count();
}

void ReplyHandle::activations(wire::Activations chunk) const {
  Target::post_rows(target_, target_->chunks, 1, std::move(chunk));
}

void ReplyHandle::run_activations(wire::Activations rows) const {
  const auto bytes = static_cast<std::uint32_t>(rows.data.size());
  Target::post_rows(target_, target_->bytes, bytes, std::move(rows));
}

void ReplyHandle::reading(std::uint32_t round) const {
  Target::post(target_, [round](ServerProtocol& s) { s.reading(round); }, {});
}

void ReplyHandle::refuse(std::uint32_t round, Error error) const {
  Target::post(target_, [round, e = std::move(error)](ServerProtocol& s) { s.refuse(round, e); },
               {});
}

void ReplyHandle::fail(Error error) const {
  Target::post(
      target_, [error](ServerProtocol& s) { s.fail(error); }, error);
}

class Listener::Impl {
 public:
  Impl(ListenerOptions options, std::shared_ptr<TlsContext> tls, ServerApplication& application)
      : options_(std::move(options)),
        application_(application),
        tls_(std::move(tls)),
        work_(io_.get_executor()),
        acceptor_(asio::make_strand(io_)) {
    listen_on(acceptor_, options_.address, options_.port);
    port_ = acceptor_.local_endpoint().port();
    go_on_accepting();
    try {
      for (std::uint32_t i = 0; i < options_.io_thread_count; ++i) {
        threads_.emplace_back([this] {
          run_all(io_, [this](const std::string& what) {
            application_.failed("the listener continues after an error: " + what);
          });
        });
      }
    } catch (...) {  // the system has no more threads
      io_.stop();
      for (std::thread& thread : threads_) thread.join();
      throw;
    }
  }

  ~Impl() {
    stop(Duration::zero());
    work_.reset();
    for (std::thread& thread : threads_) thread.join();
  }

  std::uint16_t port() const { return port_; }

  void set_tls(std::shared_ptr<TlsContext> tls) {
    const std::scoped_lock lock(mutex_);
    tls_ = std::move(tls);
  }

  ListenerStats stats() const {
    const std::scoped_lock lock(mutex_);
    ListenerStats stats = stats_;
    stats.open = static_cast<std::uint32_t>(connections_.size());
    stats.bytes_in = bytes_in_.load(std::memory_order_relaxed);
    stats.bytes_out = bytes_out_.load(std::memory_order_relaxed);
    return stats;
  }

  void drain(Duration limit) {
    const Instant deadline = Clock::now() + limit;
    stop_accepting();
    std::unique_lock lock(mutex_);
    const auto all_gone = [this] { return connections_.empty(); };
    while (!all_gone() && Clock::now() < deadline) {
      for_each_connection([pause = options_.drafting_time_max](Connection& connection) {
        const bool silent = Clock::now() - connection.last_work >= pause;
        const ServerProtocol& protocol = connection.protocol;
        const bool at_work = protocol.busy() && !protocol.paused();
        if (at_work || (protocol.may_go_on() && !silent)) return;
        say_goodbye(connection);
      });
      changed_.wait_until(lock, std::min(deadline, Clock::now() + kDrainStep), all_gone);
    }
  }

  void stop(Duration grace) {
    stop_accepting();
    std::unique_lock lock(mutex_);
    for_each_connection(say_goodbye);
    const auto all_gone = [this] { return connections_.empty(); };
    changed_.wait_for(lock, grace, all_gone);
    for_each_connection([](Connection& connection) {
      boost::system::error_code ignored;
      connection.stream.next_layer().close(ignored);
    });
    changed_.wait(lock, all_gone);
  }

 private:
  void stop_accepting() {
    asio::post(acceptor_.get_executor(), [this] {
      stopping_ = true;
      boost::system::error_code ignored;
      acceptor_.close(ignored);
    });
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return !accepting_; });
  }

  // On the connection's strand.
  static void say_goodbye(Connection& connection) {
    connection.protocol.close("the server is shutting down");
    connection.after_protocol_call({Errc::refused, "the server is shutting down"});
  }

  void count_bytes(Connection& connection) {
    const WireBytes now = wire_bytes(connection.stream.native_handle());
    bytes_in_.fetch_add(now.in - connection.counted.in, std::memory_order_relaxed);
    bytes_out_.fetch_add(now.out - connection.counted.out, std::memory_order_relaxed);
    connection.counted = now;
  }

  // Requires  mutex_ held
  template <class Act>
  void for_each_connection(Act act) {
    for (auto& [id, connection] : connections_) {
      asio::post(connection->stream.get_executor(),
                 [connection = connection, act] { act(*connection); });
    }
  }

  void go_on_accepting() {
    asio::co_spawn(acceptor_.get_executor(), accept(), [this](const std::exception_ptr& failure) {
      if (failure) {
        count_failure(failure);
        go_on_accepting();
        return;
      }
      const std::scoped_lock lock(mutex_);
      accepting_ = false;
      changed_.notify_all();
    });
  }

  void count_failure(const std::exception_ptr& failure) {
    {
      const std::scoped_lock lock(mutex_);
      ++stats_.failed;
    }
    application_.failed("a connection could not be accepted: " + what_of(failure));
  }

  asio::awaitable<void> accept() {
    while (!stopping_) {
      auto [error, socket] = co_await acceptor_.async_accept(asio::make_strand(io_), kToken);
      if (stopping_) co_return;
      if (error) {
        asio::steady_timer pause(acceptor_.get_executor(), kAcceptPause);
        co_await pause.async_wait(kToken);
        continue;
      }
      try {
        start(std::move(socket));
      } catch (...) {
        count_failure(std::current_exception());
      }
    }
  }

  void start(tcp::socket socket) {
    const std::scoped_lock lock(mutex_);
    ++stats_.accepted;
    boost::system::error_code error;
    const std::string origin = origin_of(socket.remote_endpoint(error).address());
    if (!make_room(origin)) {
      ++stats_.over_limit;
      return;  // closes the socket
    }
    const std::uint64_t id = next_id_++;
    const auto strand = socket.get_executor();
    auto connection = std::make_shared<Connection>(id, origin, std::move(socket), *tls_, options_);
    connection->reply = ReplyHandle(std::make_shared<ReplyHandle::Target>(id, *connection));
    connections_.emplace(id, connection);
    try {
      asio::co_spawn(strand, serve(*connection),
                     [this, connection](const std::exception_ptr& failure, Error reason) {
                       end(*connection, failure, std::move(reason));
                     });
    } catch (...) {  // nothing else would end it
      connections_.erase(id);
      throw;
    }
  }

  // Closes a connection from there to accept another; false if all have signed in. Requires mutex_
  // held
  bool make_room(const std::string& origin) {
    std::size_t here = 0;
    std::size_t strangers_from_there = 0;
    Connection* oldest = nullptr;
    Connection* oldest_from_there = nullptr;
    for (const auto& [id, connection] : connections_) {
      if (connection->pushed_out) continue;
      ++here;
      if (!connection->stranger) continue;
      if (oldest == nullptr) oldest = connection.get();
      if (connection->origin != origin) continue;
      ++strangers_from_there;
      if (oldest_from_there == nullptr) oldest_from_there = connection.get();
    }
    if (strangers_from_there >= options_.strangers_per_address_max) {
      push_out(*oldest_from_there);
      return true;
    }
    if (here < options_.connections_max) return true;
    if (oldest == nullptr) return false;
    push_out(*oldest);
    return true;
  }

  // Requires  mutex_ held
  void push_out(Connection& connection) {
    connection.pushed_out = true;
    ++stats_.over_limit;
    asio::post(connection.stream.get_executor(), [alive = connections_.at(connection.id)] {
      boost::system::error_code ignored;
      alive->stream.next_layer().close(ignored);
    });
  }

  bool was_pushed_out(const Connection& connection) const {
    const std::scoped_lock lock(mutex_);
    return connection.pushed_out;
  }

  // Serves from accept to close; returns why it ended.
  asio::awaitable<Error> serve(Connection& connection) {
    boost::system::error_code error;
    const tcp::endpoint endpoint = connection.stream.next_layer().remote_endpoint(error);
    connection.peer.address =
        error ? "a disconnected peer"
              : host_port(endpoint.address().to_string(), std::to_string(endpoint.port()));
    connection.stream.next_layer().set_option(tcp::no_delay(true), error);

    const Result<void> shaken =
        co_await shake_hands(connection.stream, asio::ssl::stream_base::server,
                             options_.tls_timeout, connection.peer.address);
    NativeTls* tls = connection.stream.native_handle();
    const Result<void> checked = shaken ? check_client(tls) : shaken;
    if (!checked) {
      // Give the alert with the reason time to arrive.
      if (checked.error().code != Errc::timed_out) co_await linger(connection.stream);
      co_return checked.error();
    }
    connection.peer.secured = true;
    connection.peer.certificate_key = client_key(tls);
    connection.protocol.set_signer(
        [tls](ByteView statement) { return sign_receipt(tls, statement); });

    connection.pump.emplace(connection.stream, port(connection), options_.write_stall_timeout,
                            connection.peer.address);
    // The server may have started to stop during the handshake.
    if (connection.protocol.finished()) {
      connection.after_protocol_call({Errc::refused, "the server is shutting down"});
    }
    const auto ended = co_await (connection.pump->run() || end_at_expiry(connection));
    const Error reason = std::get<0>(ended);
    connection.pump.reset();
    if (connection.protocol.finished()) co_await linger(connection.stream);
    co_return reason;
  }

  // Waits to be cancelled after it has ended the protocol.
  static asio::awaitable<Error> end_at_expiry(Connection& connection) {
    co_await client_expired(connection.stream);
    // Not final: the next handshake checks the certificate, which may be renewed by then.
    const Error reason{Errc::refused, "the client's certificate has expired"};
    connection.protocol.fail(reason);
    connection.after_protocol_call(reason);
    Signal never(connection.stream.get_executor());
    for (;;) co_await never.wait_until(Instant::max());
  }

  ProtocolPort port(Connection& connection) {
    ServerProtocol& protocol = connection.protocol;
    return {.receive =
                [this, &connection, &protocol](Instant now, ByteView bytes) {
                  Result<void> received = protocol.receive(now, bytes);
                  count_bytes(connection);
                  while (auto event = protocol.next_event()) {
                    connection.last_work = now;
                    application_.handle(*connection.reply, connection.peer, *std::move(event));
                  }
                  return received;
                },
            .tick = [&protocol](Instant now) { return protocol.tick(now); },
            .next_deadline = [&protocol] { return protocol.next_deadline(); },
            // Called again once the socket has taken the output.
            .has_output =
                [this, &connection, &protocol] {
                  note_gone(connection);
                  return protocol.has_output();
                },
            .take_output =
                [&connection, &protocol] {
                  Bytes output = protocol.take_output();
                  note_taken(connection);
                  return output;
                },
            .paces_output = [&protocol] { return protocol.paces_output(); }};
  }

  // Notes that the protocol's output was taken and waits here for the socket.
  static void note_taken(Connection& connection) {
    ReplyHandle::Target& target = *connection.reply->target_;
    target.chunks.take(connection.protocol.chunks_waiting());
    // A block may hold only the first of many verdicts.
    if (connection.protocol.is_behind()) return;
    target.verdicts.take(0);
    target.bytes.take(0);
  }

  void note_gone(Connection& connection) {
    ReplyHandle::Target& target = *connection.reply->target_;
    bool drained = target.chunks.note_gone();
    drained |= target.verdicts.note_gone();
    drained |= target.bytes.note_gone();
    if (drained) application_.drained(connection.id);
  }

  // Catches everything that a connection may throw.
  void end(Connection& connection, const std::exception_ptr& failure, Error reason) {
    if (failure) reason = {Errc::io, what_of(failure)};
    if (was_pushed_out(connection)) {
      reason = {Errc::refused, "closed before sign-in to make room for other connections"};
    }
    connection.reply->target_->cut_off();
    try {
      application_.ended(connection.id, connection.peer, reason, connection.protocol.traffic());
    } catch (const std::exception& e) {
      application_.failed("ending a connection: " + std::string(e.what()));
    }
    count_bytes(connection);
    const std::scoped_lock lock(mutex_);
    connections_.erase(connection.id);
    changed_.notify_all();
  }

  ListenerOptions options_;
  ServerApplication& application_;
  std::atomic<std::uint64_t> bytes_in_ = 0;
  std::atomic<std::uint64_t> bytes_out_ = 0;

  mutable std::mutex mutex_;  // guards the next five
  std::condition_variable changed_;
  std::shared_ptr<TlsContext> tls_;
  bool accepting_ = true;
  ListenerStats stats_;
  std::uint64_t next_id_ = 1;

  asio::io_context io_;
  asio::executor_work_guard<asio::io_context::executor_type> work_;
  // Shared with each connection's coroutine; listed for stop(). Guarded by mutex_.
  std::map<std::uint64_t, std::shared_ptr<Connection>> connections_;
  tcp::acceptor acceptor_;
  bool stopping_ = false;  // used on the acceptor's strand
  std::uint16_t port_ = 0;
  std::vector<std::thread> threads_;
};

Listener::Listener(ListenerOptions options, std::shared_ptr<TlsContext> tls,
                   ServerApplication& application)
    : impl_(std::make_unique<Impl>(std::move(options), std::move(tls), application)) {}
Listener::~Listener() = default;

std::uint16_t Listener::port() const {
  return impl_->port();
}

void Listener::set_tls(std::shared_ptr<TlsContext> tls) {
  impl_->set_tls(std::move(tls));
}

ListenerStats Listener::stats() const {
  return impl_->stats();
}

void Listener::drain(Duration limit) {
  impl_->drain(limit);
}

void Listener::stop(Duration grace) {
  impl_->stop(grace);
}

}  // namespace edgedraft
