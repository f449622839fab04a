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
#include "shared/net/dialer.h"
#include "shared/net/listening.h"

namespace edgedraft {
namespace {

namespace asio = boost::asio;
using namespace boost::asio::experimental::awaitable_operators;

// A connection without an answer that has stood for so long is no failed attempt.
constexpr Duration kStands = std::chrono::seconds(5);
// After so many short connections that brought verdicts the pause grows no more: 1.6 to 3.2 s.
constexpr std::uint32_t kAttemptsOfUse = 5;

// An outage: trying again may help. The rest needs a human: another pin, token, bundle or version.
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
      // What tells of the failure may fail as well, and is to be told of then.
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

  Result<void> send(TargetRequest request) override {
    const std::scoped_lock lock(mutex_);
    if (state_ != LinkState::online) return Error{Errc::link_down, peer_ + " is not connected"};
    // What the caller knows of the session is of an earlier connection.
    if (std::ranges::any_of(events_, is_welcome)) {
      return Error{Errc::link_down, "there is a new connection to " + peer_};
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
    // A deadline far away would overflow inside wait_until.
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

  // A link with steps never says so: how much waits depends on when in a step that is asked.
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
  // The rest runs on the link's own thread.

  void stop() {
    if (stopping_) return;
    stopping_ = true;
    {
      const std::scoped_lock lock(mutex_);
      can_try_again_ = false;
    }
    wake_.notify();
    if (!session_ || !pump_) return;
    session_->close("done");
    pump_->finish({Errc::cancelled, "the link is closed"});
  }

  // What has been told of the outage that lasts.
  struct Told {
    bool outage = false;
    bool stranger = false;
    bool logged = false;
  };

  asio::awaitable<void> run() {
    std::uint32_t attempt = 0;
    Told told;
    while (!stopping_) {
      const std::uint32_t welcomes_before = welcome_count_;
      const bool plugged = is_plugged();
      // In an expression with a condition gcc 12 destroys what co_await gives twice.
      Error error = unplugged();
      if (plugged) error = co_await connect_and_pump();
      if (stopping_) co_return;
      contact_.lost();
      if (welcome_count_ > welcomes_before) {
        // A server that ends each connection soon must not be asked without a pause, but one that
        // answers meanwhile is not waited for long.
        if (Clock::now() >= welcomed_at_ + kStands) attempt = 0;
        if (brought_verdict_) attempt = std::min(attempt, kAttemptsOfUse);
        told = {};
      }
      const bool outage = is_passing(error.code);
      if (!outage && options_.on_failure && !std::exchange(told.logged, true)) {
        options_.on_failure(error);
      }
      // The link keeps looking for a server that it has met, even if something else answers in its
      // place: a sign-in page, a proxy, a peer with another key. A certificate may be renewed, too.
      const bool stranger = !server_proved_ && welcome_count_ > 0;
      if (!outage && !stranger) {
        co_await rest(std::move(error));
        attempt = 0;
        told.outage = true;
        continue;
      }
      // A reader that waits for a deadline must not take the link's own timeouts for it.
      error.code = Errc::link_down;
      const bool known = std::exchange(outage ? told.outage : told.stranger, true);
      go_offline(known ? std::nullopt : std::optional(std::move(error)));
      if (stopping_) co_return;
      if (!plugged) attempt = 0;
      const Duration delay = back_off_delay(options_.back_off, attempt++, jitter_);
      co_await wake_.wait_until(plugged ? Clock::now() + delay : Instant::max());
    }
  }

  // Closed until try_again().
  asio::awaitable<void> rest(Error why) {
    is_resting_ = true;
    tell({.state = LinkState::closed, .final_error = std::move(why), .can_try_again = true});
    while (is_resting_ && !stopping_) co_await wake_.wait_until(Instant::max());
    if (stopping_) co_return;
    // What was mended may be a certificate of ours, and a ticket stands for the one before.
    if (auto context = make_client_context(options_.tls)) context_ = *std::move(context);
    ticket_.reset();
    if (options_.renew_token) options_.session.hello.token = options_.renew_token();
  }

  bool is_plugged() const { return options_.plug == nullptr || options_.plug->is_in(); }
  static Error unplugged() { return {Errc::link_down, "the plug is pulled"}; }

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
    const auto connected = co_await (connect(stream) || wake_.wait_until(Instant::max()));
    if (stopping_) co_return Error{Errc::cancelled, "the link is closed"};
    if (connected.index() == 1 || !is_plugged()) co_return unplugged();
    const Result<void>& result = std::get<0>(connected);
    if (!result) {
      count(stream);
      past_ = stats();
      co_return result.error();
    }
    server_proved_ = true;
    session_.emplace(options_.session, Clock::now());
    backed_up_ = false;
    pump_.emplace(stream, port(stream), options_.write_stall_timeout, peer_);
    const Error error = co_await pump_->run();
    pump_.reset();
    // Where the peer is still there it is worth a goodbye.
    if (!is_passing(error.code)) co_await linger(stream);
    ticket_ = take_ticket(stream.native_handle());
    count(stream);
    session_.reset();
    past_ = stats();
    co_return error;
  }

  // TCP, TLS, and whether to trust what is at the other end.
  asio::awaitable<Result<void>> connect(TlsStream& stream) {
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
    if (auto named = set_server_name(tls, options_.tls, options_.host); !named) co_return named;
    use_ticket(tls, ticket_);
    const Result<void> shaken = co_await shake_hands(stream, asio::ssl::stream_base::client,
                                                     deadline - Clock::now(), peer_);
    if (!shaken) co_return shaken;
    if (resumed(tls)) ++resumed_count_;
    co_return check_server(tls, options_.tls);
  }

  SessionPort port(TlsStream& stream) {
    return {.receive =
                [this, &stream](Instant now, ByteView bytes) {
                  Result<void> received = session_->receive(now, bytes);
                  // A listener that hears of an event finds its bytes counted.
                  count(stream);
                  deliver_events(stream, now);
                  return received;
                },
            .tick = [this](Instant now) { return session_->tick(now); },
            .next_deadline = [this] { return session_->next_deadline(); },
            // Asked again when the socket has taken what there was.
            .has_output =
                [this] {
                  backed_up_ = session_->holds_output();
                  return session_->has_output();
                },
            .take_output =
                [this, &stream] {
                  Bytes output = session_->take_output();
                  if (session_->in_flight() && !sent_known_) {
                    sent_ = Clock::now();
                    sent_known_ = true;
                  }
                  count(stream);
                  return output;
                },
            .paces_output = [this] { return session_->paces_output(); }};
  }

  // On that connection.
  struct Asked {
    std::uint32_t connection;
    TargetRequest request;
  };

  // When what is there now may be sent, or told.
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
    // A request of an earlier connection is lost; its sender has been told that it broke.
    if (session_ && asked.connection == welcome_count_) request_now(std::move(asked.request));
    if (cancels) note_cancel();
  }

  void request_now(TargetRequest request) {
    struct Visitor {
      ClientSession& session;
      Result<void> operator()(wire::OutgoingPrefill& r) { return session.prefill(std::move(r)); }
      Result<void> operator()(wire::OutgoingResume& r) { return session.resume(std::move(r)); }
      Result<void> operator()(wire::OutgoingHints& r) { return session.hints(std::move(r)); }
      Result<void> operator()(CancelRequest&) {
        session.cancel();
        return boost::system::in_place_value;
      }
    };
    // Hints that are not complete are answered by nothing of their own.
    const auto* hints = std::get_if<wire::OutgoingHints>(&request);
    if (hints == nullptr || hints->complete) sent_known_ = false;
    const Result<void> sent = std::visit(Visitor{*session_}, request);
    if (!sent) push(ClientEvent(RequestRefused{sent.error()}));
    backed_up_ = session_->holds_output();
    if (pump_) pump_->wake();
  }

  void deliver_events(TlsStream& stream, Instant received) {
    while (auto event = session_->next_event()) {
      if (auto* verdict = std::get_if<VerdictReceived>(&*event)) {
        verdict->times = {.sent = sent_,
                          .received = received,
                          .tcp = tcp_state(stream.next_layer().native_handle())};
        brought_verdict_ = true;
      }
      if (std::holds_alternative<Welcomed>(*event)) {
        ++welcome_count_;
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

  // What whoever waits is to know, in order.
  struct News {
    std::optional<Result<ClientEvent>> event{};
    std::optional<LinkState> state{};  // if it has changed
    std::optional<Error> final_error{};
    bool can_try_again = false;  // after it
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
      if (error) return;  // set anew, since a cancellation took what it was to tell
      for (News& one : std::exchange(untold_, {})) tell_now(std::move(one));
    });
  }

  void tell_now(News news) {
    // What it wakes may hold a lock of its own while it calls the link: not under ours.
    if (keep(std::move(news)) && options_.on_event) options_.on_event();
  }

  // Whether there is something new to tell.
  bool keep(News news) {
    const std::scoped_lock lock(mutex_);
    if (state_ == LinkState::closed) return false;
    // The caller has already cancelled what this answers.
    const bool is_late = cancels_done_ != cancels_sent_ && news.event && is_answer(*news.event);
    if (is_late) return false;
    state_ = news.state.value_or(state_);
    if (news.state == LinkState::online) {
      // A connection that came and went while nobody listened is not told of.
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

  // The link itself has failed, and is not tried again.
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
    if (session_) stats_.traffic += session_->traffic();
  }

  ClientLinkOptions options_;
  ServerContact own_contact_;
  ServerContact& contact_ = options_.contact != nullptr ? *options_.contact : own_contact_;
  std::string peer_;
  Dialer dialer_;
  std::shared_ptr<TlsContext> context_;
  Random jitter_;
  asio::io_context io_{1};
  Signal wake_;  // what is waited for, or done, is over
  bool stopping_ = false;
  bool is_resting_ = false;     // until it is to try again
  bool server_proved_ = false;  // by its certificate, on the connection at hand
  std::vector<Asked> held_;     // until then, in order
  asio::steady_timer release_;
  std::vector<News> untold_;  // until then, in order
  asio::steady_timer telling_;
  bool is_closing_ = false;
  asio::steady_timer closing_;
  std::optional<ClientSession> session_;
  std::optional<Pump> pump_;
  TlsTicket ticket_;
  Instant sent_{};           // when the request in flight was handed to the socket
  bool sent_known_ = false;  // it was
  std::uint32_t welcome_count_ = 0;
  Instant welcomed_at_{};         // the last time
  bool brought_verdict_ = false;  // that connection did
  std::uint32_t resumed_count_ = 0;
  LinkStats past_;  // of the connections before this one
  std::atomic<bool> backed_up_ = false;

  mutable std::mutex mutex_;  // guards what follows
  std::condition_variable changed_;
  LinkState state_ = LinkState::connecting;
  std::uint32_t connection_ = 0;
  // Bounded by the protocol: answers of a stream or run go no further than its credit, and each
  // position's activations come once a prompt. Among connections that nobody was told of yet it
  // has the last alone.
  std::deque<Result<ClientEvent>> events_;
  std::uint64_t cancels_sent_ = 0;  // by the caller
  std::uint64_t cancels_done_ = 0;  // of them by the link's thread
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
