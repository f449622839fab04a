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

// The server let us in; sent once a connection, before anything else.
struct Welcomed {
  wire::Welcome welcome;
};

// What a link saw of a request and its answer; a session has neither clock nor socket.
struct LinkTimes {
  Instant sent;      // the request was encoded and handed to the socket
  Instant received;  // the answer's last bytes came
  // What the system tells of the TCP connection (Linux).
  struct Tcp {
    std::uint32_t retransmits;        // segments that we sent again, since it was made
    std::uint32_t round_trip_us;      // smoothed
    std::uint32_t congestion_window;  // segments
  };
  std::optional<Tcp> tcp{};
};

// The answer to a Prefill or Resume, or one of the run that follows.
struct VerdictReceived {
  enum class To : std::uint8_t { prefill, resume, run };
  To to;
  // Under lockstep, `rows` are the verdict's decoded `activations`: those of positions rows_first,
  // rows_first + 1, ... All others come as ActivationsReceived.
  wire::Verdict verdict{};
  std::uint32_t rows_first = 0;
  std::vector<float> rows{};
  bool more = false;                 // further verdicts on this round follow
  std::optional<LinkTimes> times{};  // filled in by a link that measures
};

// Rows of positions first, first + 1, ... of the tokens given by the last Prefill or Resume; newest
// positions first. `complete` with the last of them. Or, in order, of tokens that its run has told.
struct ActivationsReceived {
  std::uint32_t first = 0;
  std::uint32_t count = 0;
  bool complete = false;
  bool of_run = false;
  std::vector<float> rows{};
};

// The request in flight failed; the connection goes on. After session_unknown: send a Prefill with
// everything.
struct RequestRefused {
  Error error;
};

using ClientEvent = std::variant<Welcomed, VerdictReceived, ActivationsReceived, RequestRefused>;

struct ClientSessionOptions {
  wire::Hello hello{};
  ChannelOptions channel{};
  // Tokens of the tokenizer: a server that brings any beyond them is faulty. 0: any number.
  std::uint32_t vocabulary_count = 0;
};

// The client's half of a connection: bytes and time in, bytes, events and a next deadline out.
//
// Requests are answered one at a time: each is refused with `protocol` while another is in flight,
// except during a run, which the request ends. A run is in flight until its answer has come to an
// end.
// Any error of receive() or tick() ends the session: flush take_output() and close.
class ClientSession {
 public:
  // Says Hello at once.
  ClientSession(ClientSessionOptions options, Instant now);

  // Errors    what the server said in a fatal Error (unauthorized, mismatch, refused, ...);
  //           link_down where it said Close; bad_message, protocol, frame_too_large, version for
  //           a faulty server
  Result<void> receive(Instant now, ByteView bytes);
  // Errors    timed_out after the handshake's, a frame's or the liveness deadline
  Result<void> tick(Instant now);
  Instant next_deadline() const { return channel_.next_deadline(awaits()); }

  bool has_output() const { return channel_.has_output(); }
  bool holds_output() const { return channel_.holds_output(); }
  bool paces_output() const { return channel_.paces_output(); }
  Bytes take_output() { return channel_.take_output(); }
  std::optional<ClientEvent> next_event();

  // `round` is filled in here.
  // Errors    link_down before Welcomed; protocol while a request is in flight, for lengths that
  //           the server would refuse; context_full. Nothing was sent then.
  Result<void> prefill(wire::OutgoingPrefill request);
  Result<void> resume(wire::OutgoingResume request);
  // `round` is filled in here. Does nothing behind the end of the run, which the caller may not
  // have seen yet.
  // Errors    link_down before Welcomed; protocol if no run was begun, there are more nodes than a
  //           message takes, or complete ones are not for a run under lockstep of that length
  Result<void> hints(wire::OutgoingHints hints);
  // Gives up the request in flight and the rest of the activations. The next request has to be a
  // Prefill or Resume. Does nothing before Welcomed.
  void cancel();
  // The last message. Flush take_output() and close.
  void close(std::string reason);

  bool ready() const { return welcome_.has_value(); }
  bool in_flight() const { return pending_.has_value(); }
  // Tokens that both sides know to be the session's, root included.
  std::uint32_t length() const { return length_; }
  // The id to Resume by.
  const wire::SessionId& session_id() const { return session_; }
  const TrafficStats& traffic() const { return channel_.traffic(); }

 private:
  struct Pending {
    VerdictReceived::To to;
    std::uint32_t round;
    std::uint32_t base_length;
    std::uint32_t given_count = 0;        // Prefill: tokens that are not provisional
    std::uint32_t provisional_count = 0;  // Prefill, Resume
    bool all_accepted = false;            // the policy keeps every provisional token
    std::uint32_t activations_from = 0;
    wire::SessionId session{};  // Resume
    wire::RunTerms run{};
    // Under lockstep: the length for which complete hints were sent last, and their number.
    std::uint32_t marked_length = 0;
    std::uint32_t nodes = 0;
  };

  Result<void> handle(wire::Message message);
  Result<void> on_welcome(wire::Welcome welcome);
  Result<void> on_verdict(wire::Verdict verdict);
  Result<void> on_activations(wire::Activations& chunk);
  // Whether it is the next of a run's, or of a prompt's.
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
  bool told_by_server_ = false;  // the error that ends us is the server's own

  std::uint32_t last_round_ = 0;
  std::uint32_t cancelled_round_ = 0;  // answers up to here are ignored
  std::optional<Pending> pending_;
  std::uint32_t length_ = 0;
  std::uint32_t logprobs_ = 0;  // that the session's verdicts may tell of a token
  // The activations still to come: rows of [first, end) for the request `round`.
  struct Missing {
    std::uint32_t round = 0;
    std::uint32_t first = 0;
    std::uint32_t end = 0;
  } missing_;
  // For a run that brings its rows apart: the position whose row comes next.
  struct RunRows {
    std::uint32_t round = 0;
    std::uint32_t next = 0;
  } run_rows_;
};

}  // namespace edgedraft
