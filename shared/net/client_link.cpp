#include "shared/net/client_link.h"

#ifdef __linux__
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#endif

#include <algorithm>
#include <atomic>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/ssl/context.hpp>
#include <boost/asio/steady_timer.hpp>
#include <condition_variable>
#include <deque>
#include <mutex>
#include <thread>
#include <utility>
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
using namespace boost::asio::experimental::awaitable_operators;

// A connection that lasts this long does not count as a failed attempt, even without an answer.
constexpr Duration kStands = std::chrono::seconds(5);
// After a connection that lasted this long and brought verdicts, the next replica is tried at once.
constexpr Duration kServes = std::chrono::milliseconds(500);
// Limits the back-off after short connections that brought verdicts: 1.6 to 3.2 s.
constexpr std::uint32_t kAttemptsOfUse = 5;

// True for an outage, where retrying may help. All else needs the user: another pin, token, bundle
// or version.
bool is_passing(Errc code) {
  return code == Errc::link_down || code == Errc::timed_out || code == Errc::refused ||
         code == Errc::io;
}

std::optional<LinkTimes::Tcp> tcp_state([[maybe_unused]] int socket) {
#ifdef __linux__
  tcp_info info{};
  socklen_t size = sizeof info;
  if (getsockopt(socket, IPPROTO_TCP, TCP_INFO, &info, &size) == 0) {
    return LinkTimes::Tcp{.retransmits = info.tcpi_total_retrans,
                          .round_trip_us = info.tcpi_rtt,
                          .congestion_window = info.tcpi_snd_cwnd};
  }
#endif
  return std::nullopt;
}

bool is_answer(const Result<ClientEvent>& event) {
  return event && (std::holds_alternative<VerdictReceived>(*event) ||
                   std::holds_alternative<RequestRefused>(*event));
}

bool is_welcome(const Result<ClientEvent>& event) {
  return event && std::holds_alternative<Welcomed>(*event);
}

class TlsLink final : public ClientLink {
 public:
  TlsLink(ClientLinkOptions options, std::shared_ptr<TlsContext> context)
      : options_(std::move(options)),
        peer_(host_port(options_.host, options_.port)),
        dialer_(options_.resolver, options_.host, options_.port),
        context_(std::move(context)),
        jitter_(options_.jitter_seed),
        may_connect_(!options_.connects_later),
        wake_(io_.get_executor()),
        release_(io_),
        telling_(io_),
        closing_(io_) {
    asio::co_spawn(io_, run(), [this](const std::exception_ptr& failure) {
      if (failure) give_up(what_of(failure));
    });
    if (options_.plug != nullptr) {
      watch_.emplace(*options_.plug, [this] { asio::post(io_, [this] { on_plug(); }); });
    }
    thread_ = std::thread([this] {
      // Reporting a failure may fail as well; that is reported too.
      run_all(io_, [this](const std::string& what) {
        asio::post(io_, [this, what] { give_up(what); });
      });
    });
  }

  ~TlsLink() override {
    TlsLink::close();
    thread_.join();
  }
  TlsLink(const TlsLink&) = delete;
  TlsLink& operator=(const TlsLink&) = delete;

  void start_connecting() override {
    asio::post(io_, [this] {
      if (!std::exchange(may_connect_, true)) wake_.notify();
    });
  }

  Result<void> send(TargetRequest request) override {
    const std::scoped_lock lock(mutex_);
    if (state_ != LinkState::online) return Error{Errc::link_down, peer_ + " is not connected"};
    // The caller's knowledge of the session belongs to an earlier connection.
    if (std::ranges::any_of(events_, is_welcome)) {
      return Error{Errc::link_down, "a new connection to " + peer_ + " was made"};
    }
    if (std::holds_alternative<CancelRequest>(request)) {
      ++cancels_sent_;
      std::erase_if(events_, is_answer);
    }
    asio::post(io_, [this, request = Asked{connection_, std::move(request)}]() mutable {
      take(std::move(request));
    });
    return boost::system::in_place_value;
  }

  Result<ClientEvent> wait_event(Instant deadline) override {
    std::unique_lock lock(mutex_);
    const auto something = [this] { return !events_.empty() || final_error_; };
    // A distant deadline would overflow inside wait_until.
    while (!something()) {
      const Instant now = Clock::now();
      if (now >= deadline) return Error{Errc::timed_out, "no answer from " + peer_ + " in time"};
      changed_.wait_for(lock, std::min<Duration>(deadline - now, std::chrono::hours(1)));
    }
    if (events_.empty()) return *final_error_;
    Result<ClientEvent> event = std::move(events_.front());
    events_.pop_front();
    return event;
  }

  LinkState state() const override {
    const std::scoped_lock lock(mutex_);
    return state_;
  }

  LinkStats stats() const override {
    const std::scoped_lock lock(mutex_);
    return stats_;
  }

  // Always false on a send grid: the amount queued depends on when in a step it is read.
  bool backed_up() const override {
    const bool steps = options_.grid != nullptr && options_.grid->last_turn(Clock::now());
    return backed_up_ && !steps;
  }

  void try_again() override {
    {
      const std::scoped_lock lock(mutex_);
      if (!can_try_again_) return;
      can_try_again_ = false;
      state_ = LinkState::connecting;
      events_.push_back(Error{Errc::link_down, final_error_->message});
      final_error_.reset();
    }
    asio::post(io_, [this] {
      is_resting_ = false;
      wake_.notify();
    });
  }

  void close() override {
    {
      const std::scoped_lock lock(mutex_);
      can_try_again_ = false;
      if (state_ != LinkState::closed) {
        state_ = LinkState::closed;
        final_error_ = Error{Errc::cancelled, "the link is closed"};
        changed_.notify_all();
      }
    }
    asio::post(io_, [this] {
      if (std::exchange(is_closing_, true)) return;
      closing_.expires_at(release_time());
      closing_.async_wait([this](const boost::system::error_code&) { stop(); });
    });
  }

 private:
  // Everything below runs on the link's own thread.

  void stop() {
    if (stopping_) return;
    stopping_ = true;
    {
      const std::scoped_lock lock(mutex_);
      can_try_again_ = false;
    }
    wake_.notify();
    if (!protocol_ || !pump_) return;
    protocol_->close("done");
    pump_->finish({Errc::cancelled, "the link is closed"});
  }

  // Failures already reported during the current outage.
  struct Told {
    bool outage = false;
    bool stranger = false;
    bool logged = false;
  };

  asio::awaitable<void> run() {
    std::uint32_t attempt = 0;
    Told told;
    while (!may_connect_ && !stopping_) co_await wake_.wait_until(Instant::max());
    while (!stopping_) {
      const std::uint32_t welcomes_before = welcome_count_;
      const bool plugged = is_plugged();
      // In a conditional expression gcc 12 destroys the result of co_await twice.
      Error error = unplugged();
      if (plugged) error = co_await connect_and_pump();
      if (stopping_) co_return;
      contact_.lost();
      if (welcome_count_ > welcomes_before) {
        // A server that ends each connection early must not be retried without a pause. If it
        // answers in between, the pause stays short.
        if (Clock::now() >= welcomed_at_ + kStands) attempt = 0;
        if (brought_verdict_) attempt = std::min(attempt, kAttemptsOfUse);
        told = {};
      }
      const bool outage = is_passing(error.code);
      if (!outage && options_.on_failure && !std::exchange(told.logged, true)) {
        options_.on_failure(error);
      }
      // Keep retrying a server that we have met, even if another peer answers: a sign-in page, a
      // proxy, a server with another key. A certificate may also be renewed.
      const bool stranger = !server_proved_ && welcome_count_ > 0;
      if (!outage && !stranger) {
        co_await rest(std::move(error));
        attempt = 0;
        told.outage = true;
        continue;
      }
      // Keeps the link's own timeouts apart from the caller's deadline.
      error.code = Errc::link_down;
      const bool known = std::exchange(outage ? told.outage : told.stranger, true);
      go_offline(known ? std::nullopt : std::optional(std::move(error)));
      if (stopping_) co_return;
      if (!plugged) attempt = 0;
      // Another replica may take over at once.
      const bool has_served = welcome_count_ > welcomes_before && brought_verdict_;
      const bool has_stood = attempt == 0 || Clock::now() >= welcomed_at_ + kServes;
      const bool is_at_once = has_served && has_stood && !contact_.replica().empty();
      const Duration back_off = back_off_delay(options_.back_off, attempt++, jitter_);
      const Duration delay = is_at_once ? Duration::zero() : back_off;
      co_await wake_.wait_until(plugged ? Clock::now() + delay : Instant::max());
    }
  }

  // Closed until try_again().
  asio::awaitable<void> rest(Error why) {
    is_resting_ = true;
    tell({.state = LinkState::closed, .final_error = std::move(why), .can_try_again = true});
    while (is_resting_ && !stopping_) co_await wake_.wait_until(Instant::max());
    if (stopping_) co_return;
    // The user may have replaced our certificate; a ticket would resume with the old one.
    if (auto context = make_client_context(options_.tls)) context_ = *std::move(context);
    ticket_.reset();
    if (options_.renew_token) options_.protocol.hello.token = options_.renew_token();
  }

  bool is_plugged() const { return options_.plug == nullptr || options_.plug->is_in(); }
  static Error unplugged() { return {Errc::link_down, "the link is unplugged"}; }

  void on_plug() {
    if (pump_ && !is_plugged()) pump_->finish(unplugged());
    wake_.notify();
  }

  asio::awaitable<Error> connect_and_pump() {
    server_proved_ = false;
    const Instant at = release_time();
    while (Clock::now() < at && !stopping_) co_await wake_.wait_until(at);
    if (stopping_) co_return Error{Errc::cancelled, "the link is closed"};
    if (!is_plugged()) co_return unplugged();
    TlsStream stream(io_, *context_);
    const auto connected = co_await (connect_to_server(stream) || wake_.wait_until(Instant::max()));
    if (stopping_) co_return Error{Errc::cancelled, "the link is closed"};
    if (connected.index() == 1 || !is_plugged()) co_return unplugged();
    const Result<void>& result = std::get<0>(connected);
    if (!result) {
      count(stream);
      past_ = stats();
      co_return result.error();
    }
    server_proved_ = true;
    protocol_.emplace(options_.protocol, Clock::now());
    backed_up_ = false;
    pump_.emplace(stream, port(stream), options_.write_stall_timeout, peer_);
    const Error error = co_await pump_->run();
    pump_.reset();
    // If the peer is still connected, close TLS and TCP in order.
    if (!is_passing(error.code)) co_await linger(stream);
    ticket_ = take_ticket(stream.native_handle());
    count(stream);
    protocol_.reset();
    past_ = stats();
    co_return error;
  }

  // Connects TCP and TLS, and checks that the peer is trusted.
  asio::awaitable<Result<void>> connect_to_server(TlsStream& stream) {
    const Instant deadline = Clock::now() + options_.connect_timeout;
    asio::steady_timer timer(io_, deadline);
    const auto done = co_await (dialer_.connect(stream.next_layer()) || timer.async_wait(kToken));
    if (done.index() == 1) {
      co_return Error{Errc::timed_out, "could not connect to " + peer_ + " in time"};
    }
    if (const auto& error = std::get<0>(done)) {
      if (error == asio::error::host_not_found && !contact_.was_made()) {
        co_return Error{Errc::unknown_host, "the host '" + options_.host +
                                                "' was not found: check the name in --server"};
      }
      co_return Error{Errc::link_down, "could not connect to " + peer_ + ": " + error.message()};
    }
    NativeTls* tls = stream.native_handle();
    auto named = set_server_name(tls, options_.tls, options_.host, contact_.replica());
    if (!named) co_return named;
    use_ticket(tls, ticket_);
    const Result<void> shaken = co_await shake_hands(stream, asio::ssl::stream_base::client,
                                                     deadline - Clock::now(), peer_);
    if (!shaken) co_return shaken;
    if (resumed(tls)) ++resumed_count_;
    co_return check_server(tls, options_.tls);
  }

  ProtocolPort port(TlsStream& stream) {
    return {.receive =
                [this, &stream](Instant now, ByteView bytes) {
                  Result<void> received = protocol_->receive(now, bytes);
                  // Count bytes before events, so that a listener sees current counters.
                  count(stream);
                  deliver_events(stream, now);
                  return received;
                },
            .tick = [this](Instant now) { return protocol_->tick(now); },
            .next_deadline = [this] { return protocol_->next_deadline(); },
            // Called again once the socket has taken the output.
            .has_output =
                [this] {
                  backed_up_ = protocol_->holds_output();
                  return protocol_->has_output();
                },
            .take_output =
                [this, &stream] {
                  Bytes output = protocol_->take_output();
                  if (protocol_->in_flight() && !sent_known_) {
                    sent_ = Clock::now();
                    sent_known_ = true;
                  }
                  count(stream);
                  return output;
                },
            .paces_output = [this] { return protocol_->paces_output(); }};
  }

  // A request and the connection that it was made for.
  struct Asked {
    std::uint32_t connection;
    TargetRequest request;
  };

  // Earliest time to send, or report, what is ready now.
  Instant release_time() const {
    const Instant now = Clock::now();
    return options_.grid != nullptr ? options_.grid->release(now) : now;
  }

  void take(Asked asked) {
    const Instant at = release_time();
    if (held_.empty() && at <= Clock::now()) return send_now(std::move(asked));
    held_.push_back(std::move(asked));
    if (held_.size() > 1) return;
    release_.expires_at(at);
    release_.async_wait([this](const boost::system::error_code&) {
      for (Asked& request : std::exchange(held_, {})) send_now(std::move(request));
    });
  }

  void send_now(Asked asked) {
    const bool cancels = std::holds_alternative<CancelRequest>(asked.request);
    // A request for an earlier connection is lost; its sender already knows that it broke.
    if (protocol_ && asked.connection == welcome_count_) request_now(std::move(asked.request));
    if (cancels) note_cancel();
  }

  void request_now(TargetRequest request) {
    struct Visitor {
      ClientProtocol& protocol;
      Result<void> operator()(wire::OutgoingPrefill& r) { return protocol.prefill(std::move(r)); }
      Result<void> operator()(wire::OutgoingResume& r) { return protocol.resume(std::move(r)); }
      Result<void> operator()(wire::OutgoingHints& r) { return protocol.hints(std::move(r)); }
      Result<void> operator()(CancelRequest&) {
        protocol.cancel();
        return boost::system::in_place_value;
      }
    };
    // Incomplete hints get no answer of their own.
    const auto* hints = std::get_if<wire::OutgoingHints>(&request);
    if (hints == nullptr || hints->complete) sent_known_ = false;
    const Result<void> sent = std::visit(Visitor{*protocol_}, request);
    if (!sent) push(ClientEvent(RequestRefused{sent.error()}));
    backed_up_ = protocol_->holds_output();
    if (pump_) pump_->wake();
  }

  void deliver_events(TlsStream& stream, Instant received) {
    while (auto event = protocol_->next_event()) {
      if (auto* verdict = std::get_if<VerdictReceived>(&*event)) {
        verdict->times = {.sent = sent_,
                          .received = received,
                          .tcp = tcp_state(stream.next_layer().native_handle())};
        brought_verdict_ = true;
        if (!verdict->verdict.receipt.empty()) {
          verdict->certificate = server_certificate(stream.native_handle());
        }
      }
      if (const auto* welcomed = std::get_if<Welcomed>(&*event)) {
        ++welcome_count_;
        contact_.set_replica(welcomed->welcome.replica);
        contact_.made();
        welcomed_at_ = received;
        brought_verdict_ = false;
        dialer_.keep();
      }
      push(*std::move(event));
    }
  }

  void note_cancel() {
    std::erase_if(untold_, [](const News& news) { return news.event && is_answer(*news.event); });
    const std::scoped_lock lock(mutex_);
    ++cancels_done_;
  }

  // News for the waiting caller, in order.
  struct News {
    std::optional<Result<ClientEvent>> event{};
    std::optional<LinkState> state{};  // if changed
    std::optional<Error> final_error{};
    bool can_try_again = false;  // after the event
  };

  void push(ClientEvent event) {
    News news;
    if (std::holds_alternative<Welcomed>(event)) news.state = LinkState::online;
    news.event = std::move(event);
    tell(std::move(news));
  }

  void go_offline(std::optional<Error> error) {
    News news{.state = LinkState::connecting};
    if (error) news.event = *std::move(error);
    tell(std::move(news));
  }

  void tell(News news) {
    const Instant at = release_time();
    if (untold_.empty() && at <= Clock::now()) return tell_now(std::move(news));
    untold_.push_back(std::move(news));
    if (untold_.size() > 1) return;
    telling_.expires_at(at);
    telling_.async_wait([this](const boost::system::error_code& error) {
      if (error) return;  // set again, after a cancellation had emptied the list
      for (News& one : std::exchange(untold_, {})) tell_now(std::move(one));
    });
  }

  void tell_now(News news) {
    // Call without our mutex: the callback may hold a lock of its own while it calls the link.
    if (keep(std::move(news)) && options_.on_event) options_.on_event();
  }

  // Stores news; returns whether the caller has something new to read.
  bool keep(News news) {
    const std::scoped_lock lock(mutex_);
    if (state_ == LinkState::closed) return false;
    // The caller has already cancelled the request that this answers.
    const bool is_late = cancels_done_ != cancels_sent_ && news.event && is_answer(*news.event);
    if (is_late) return false;
    state_ = news.state.value_or(state_);
    if (news.state == LinkState::online) {
      // Drop the events of an earlier connection that the caller has not read.
      events_.erase(std::ranges::find_if(events_, is_welcome), events_.end());
      ++connection_;
      stats_.reconnects = connection_ - 1;
      stats_.resumed_handshakes = resumed_count_;
    }
    if (news.event) events_.push_back(*std::move(news.event));
    if (news.final_error) {
      final_error_ = std::move(news.final_error);
      can_try_again_ = news.can_try_again && !stopping_;
    }
    changed_.notify_all();
    return true;
  }

  // Closes the link for good after an internal failure.
  void give_up(const std::string& what) {
    tell({.state = LinkState::closed,
          .final_error = Error{Errc::io, "the connection to " + peer_ + " failed: " + what}});
    stop();
  }

  void count(TlsStream& stream) {
    const WireBytes bytes = wire_bytes(stream.native_handle());
    const std::scoped_lock lock(mutex_);
    stats_.bytes_up = past_.bytes_up + bytes.out;
    stats_.bytes_down = past_.bytes_down + bytes.in;
    stats_.traffic = past_.traffic;
    if (protocol_) stats_.traffic += protocol_->traffic();
  }

  ClientLinkOptions options_;
  ServerContact own_contact_;
  ServerContact& contact_ = options_.contact != nullptr ? *options_.contact : own_contact_;
  std::string peer_;
  Dialer dialer_;
  std::shared_ptr<TlsContext> context_;
  Random jitter_;
  bool may_connect_;  // start_connecting() was called, or is not needed
  asio::io_context io_{1};
  Signal wake_;  // wakes the coroutine: new work, or the end of a wait
  bool stopping_ = false;
  bool is_resting_ = false;     // until try_again()
  bool server_proved_ = false;  // by its certificate, on the current connection
  std::vector<Asked> held_;     // requests held until the next step, in order
  asio::steady_timer release_;
  std::vector<News> untold_;  // news held until the next step, in order
  asio::steady_timer telling_;
  bool is_closing_ = false;
  asio::steady_timer closing_;
  std::optional<ClientProtocol> protocol_;
  std::optional<Pump> pump_;
  TlsTicket ticket_;
  Instant sent_{};           // time when the request in flight was handed to the socket
  bool sent_known_ = false;  // sent_ is set
  std::uint32_t welcome_count_ = 0;
  Instant welcomed_at_{};         // time of the last welcome
  bool brought_verdict_ = false;  // the last connection did
  std::uint32_t resumed_count_ = 0;
  LinkStats past_;  // totals of earlier connections
  std::atomic<bool> backed_up_ = false;

  mutable std::mutex mutex_;  // guards the members below
  std::condition_variable changed_;
  LinkState state_ = LinkState::connecting;
  std::uint32_t connection_ = 0;
  // Bounded by the protocol: a run's answers stop at its credit, and each position's activations
  // come once per prompt. Only the last unreported connection is kept.
  std::deque<Result<ClientEvent>> events_;
  std::uint64_t cancels_sent_ = 0;  // by the caller
  std::uint64_t cancels_done_ = 0;  // cancels handled by the link's thread
  std::optional<Error> final_error_;
  bool can_try_again_ = false;
  LinkStats stats_;

  std::optional<LinkPlug::Watch> watch_;
  std::thread thread_;
};

}  // namespace

Result<std::unique_ptr<ClientLink>> ClientLink::open(ClientLinkOptions options) {
  auto context = make_client_context(options.tls);
  if (!context) return context.error();
  return std::unique_ptr<ClientLink>(
      std::make_unique<TlsLink>(std::move(options), *std::move(context)));
}

}  // namespace edgedraft
