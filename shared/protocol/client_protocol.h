#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <variant>
#include <vector>

#include "shared/protocol/activation_codec.h"
#include "shared/protocol/channel.h"
#include "shared/protocol/message.h"
#include "shared/protocol/outgoing.h"

namespace edgedraft {

// Sign-in succeeded. Comes once per connection, before any other event.
struct Welcomed {
  wire::Welcome welcome;
};

// Times of a request and its answer, filled in by the link: ClientProtocol has no clock or socket.
struct LinkTimes {
  Instant sent;      // the request was encoded and handed to the socket
  Instant received;  // the answer's last bytes arrived
  // The system's statistics of the TCP connection (Linux).
  struct Tcp {
    std::uint32_t retransmits;        // segments retransmitted since the connection was made
    std::uint32_t round_trip_us;      // smoothed
    std::uint32_t congestion_window;  // segments
  };
  std::optional<Tcp> tcp{};
};

// Answer to a Prefill or Resume, or a verdict of the run that follows.
struct VerdictReceived {
  enum class To : std::uint8_t { prefill, resume, run };
  To to;
  // Under lockstep `rows` holds the decoded `activations` of the verdict, for positions rows_first,
  // rows_first + 1, ... All other rows come as ActivationsReceived.
  wire::Verdict verdict{};
  std::uint32_t rows_first = 0;
  std::vector<float> rows{};
  bool more = false;                 // further verdicts of this round follow
  std::optional<LinkTimes> times{};  // set by a link that measures
  Bytes certificate{};  // DER of the server's certificate, set by a link over TLS with a receipt
};

// Rows of positions first, first + 1, ... For tokens of the last Prefill or Resume the newest
// positions come first, and `complete` is set with the last chunk. For tokens of a run they come in
// order.
struct ActivationsReceived {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  bool complete = false;
  bool of_run = false;
  std::vector<float> rows{};
};

// The request in flight failed; the connection stays open. After session_unknown, send a Prefill
// with all tokens.
struct RequestRefused {
  Error error;
};

// The server is still reading the tokens of the request in flight.
struct RequestRead {};

using ClientEvent =
    std::variant<Welcomed, VerdictReceived, ActivationsReceived, RequestRefused, RequestRead>;

struct ClientProtocolOptions {
  wire::Hello hello{};
  ChannelOptions channel{};
  // Vocabulary size: a server that sends larger ids is faulty. 0: unlimited.
  std::uint32_t vocabulary_count = 0;
};

// Client half of a connection: takes bytes and time, returns bytes, events and a deadline.
//
// One request is in flight at a time; another is refused with `protocol`. Exception: during a run a
// new request ends the run. A run is in flight until its answer ends.
// Any error of receive() or tick() ends the connection: flush take_output() and close.
class ClientProtocol {
 public:
  // Queues Hello at once.
  ClientProtocol(ClientProtocolOptions options, Instant now);

  // Errors    the server's fatal Error (unauthorized, mismatch, refused, ...); link_down if it sent
  //           Close; bad_message, protocol, frame_too_large, version for a faulty server
  Result<void> receive(Instant now, ByteView bytes);
  // Errors    timed_out after the handshake's, a frame's or the liveness deadline
  Result<void> tick(Instant now);
  Instant next_deadline() const { return channel_.next_deadline(awaits()); }

  bool has_output() const { return channel_.has_output(); }
  bool holds_output() const { return channel_.holds_output(); }
  bool paces_output() const { return channel_.paces_output(); }
  Bytes take_output() { return channel_.take_output(); }
  std::optional<ClientEvent> next_event();

  // Sets `round`.
  // Errors    link_down before Welcomed; protocol while a request is in flight, or for lengths that
  //           the server would refuse; context_full. On errors nothing is sent.
  Result<void> prefill(wire::OutgoingPrefill request);
  Result<void> resume(wire::OutgoingResume request);
  // Sets `round`. Ignored after the end of the run, which the caller may not have seen yet.
  // Errors    link_down before Welcomed; protocol if there is no run, if there are too many nodes
  //           for one message, or if complete hints do not fit a lockstep run of that length
  Result<void> hints(wire::OutgoingHints hints);
  // Cancels the request in flight and its remaining activations. The next request must be a Prefill
  // or Resume. Ignored before Welcomed.
  void cancel();
  // Queues the last message. Flush take_output() and close.
  void close(std::string reason);

  bool ready() const { return welcome_.has_value(); }
  bool in_flight() const { return pending_.has_value(); }
  // Tokens that both sides hold for the session, root included.
  std::uint32_t length() const { return length_; }
  // Id for Resume.
  const wire::SessionId& session_id() const { return session_; }
  const TrafficStats& traffic() const { return channel_.traffic(); }

 private:
  struct Pending {
    VerdictReceived::To to;
    std::uint32_t round;
    std::uint32_t base_length;
    std::uint32_t given_count = 0;        // Prefill: verified tokens
    std::uint32_t provisional_count = 0;  // Prefill, Resume
    bool all_accepted = false;            // the policy keeps every provisional token
    std::uint32_t activations_from = 0;
    wire::SessionId session{};  // Resume
    wire::RunTerms run{};
    // Under lockstep: length of the last complete hints, and their number of nodes.
    std::uint32_t marked_length = 0;
    std::uint32_t nodes = 0;
  };

  Result<void> handle(wire::Message message);
  Result<void> on_welcome(wire::Welcome welcome);
  Result<void> on_verdict(wire::Verdict verdict);
  Result<void> on_activations(wire::Activations& chunk);
  // True for the next activations of a run, false for those of a prompt.
  Result<bool> is_of_run(const wire::Activations& chunk) const;
  Result<void> on_error(const wire::ErrorReport& report);
  Result<void> check_verdict(const wire::Verdict& verdict) const;
  bool in_vocabulary(std::uint32_t token) const {
    return vocabulary_count_ == 0 || token < vocabulary_count_;
  }
  Result<void> check_logprobs(const wire::Verdict& verdict) const;
  Result<void> check_run_verdict(const wire::Verdict& verdict) const;
  Result<void> may_request() const;
  Result<void> check_context(std::uint64_t token_count) const;
  bool running() const { return pending_ && pending_->to == VerdictReceived::To::run; }
  bool in_lockstep() const { return running() && pending_->run.hold == wire::Hold::lockstep; }
  bool awaits() const { return pending_ || missing_.first != missing_.end; }
  void start(Pending pending);

  Channel channel_;
  std::uint32_t vocabulary_count_;
  std::uint16_t pad_tick_ms_;
  bool asks_newest_row_;
  std::optional<wire::Welcome> welcome_;
  ActivationLayout layout_;
  wire::SessionId session_{};
  std::deque<ClientEvent> events_;
  bool told_by_server_ = false;  // the fatal error came from the server

  std::uint32_t last_round_ = 0;
  std::uint32_t cancelled_round_ = 0;  // answers up to this round are ignored
  std::optional<Pending> pending_;
  std::uint32_t length_ = 0;
  std::uint32_t logprobs_ = 0;  // log probabilities per token in this session's verdicts
  // Outstanding activations: rows [first, end) of request `round`.
  struct Missing {
    std::uint32_t round = 0;
    std::uint32_t first = 0;
    std::uint32_t end = 0;
  } missing_;
  // For a run that sends rows separately: the position of the next row.
  struct RunRows {
    std::uint32_t round = 0;
    std::uint32_t next = 0;
  } run_rows_;
};

}  // namespace edgedraft
