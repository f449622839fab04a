#pragma once

#include <cstdint>
#include <deque>
#include <optional>
#include <string>
#include <variant>

#include "shared/protocol/activation_codec.h"
#include "shared/protocol/channel.h"
#include "shared/protocol/message.h"

namespace edgedraft {

// To be answered with accept() or fail(). `version` is the one that both speak.
struct HelloReceived {
  wire::Hello hello;
  std::uint16_t version;
};
// To be answered with verdict() or refuse(), and verdict() with activations() where there are any.
// Where it gives credit a run begins: further verdicts on the round as far as the credit reaches,
// until one ends the answer, or refuse() instead of one.
struct PrefillRequested {
  wire::Prefill request;
};
struct ResumeRequested {
  wire::Resume request;
};
// News for a run that goes on: nodes, and how far it may go. Nothing is to be answered.
struct HintsReceived {
  wire::Hints hints;
};
// The work on that round is not wanted any more; nothing is to be answered.
struct RoundCancelled {
  std::uint32_t round;
};

using ServerEvent =
    std::variant<HelloReceived, PrefillRequested, ResumeRequested, HintsReceived, RoundCancelled>;

struct ServerSessionOptions {
  ChannelOptions channel{};
  // Queued bytes, activations of a prompt apart, at which a client that does not read is dropped.
  std::uint64_t urgent_bytes_max = 16u << 20;
};

// The server's half of a connection: bytes and time in, bytes, events and a next deadline out. It
// enforces order, rounds and lengths; whether tokens are in the vocabulary and whether a session
// may be resumed is the application's to say.
//
// An error of receive() or tick() ends the session; where the client can still hear it, an Error
// is in take_output(). Flush and close.
class ServerSession {
 public:
  ServerSession(ServerSessionOptions options, Instant now);

  // Errors    link_down where the client said Close, or why it gave up; bad_message, protocol,
  //           frame_too_large, version for a faulty one
  Result<void> receive(Instant now, ByteView bytes);
  // Errors    timed_out after the handshake's, a frame's or the liveness deadline
  Result<void> tick(Instant now);
  Instant next_deadline() const { return channel_.next_deadline(awaited()); }

  bool has_output() const { return channel_.has_output(); }
  bool paces_output() const { return channel_.paces_output(); }
  bool is_behind() const { return channel_.is_behind(); }
  // Chunks of prompts' activations in output that was not taken yet.
  std::uint32_t chunks_waiting() const { return channel_.bulk_count(); }
  // Verdicts overtake activations that wait.
  Bytes take_output() { return channel_.take_output(); }
  std::optional<ServerEvent> next_event();

  // Activations are padded to `padded_row_bytes` per position: an experiment may so stand for a
  // larger model.
  //
  // Requires  an unanswered HelloReceived
  void accept(wire::Welcome welcome, std::uint32_t padded_row_bytes = 0);

  // Sends the answer to `verdict.round`. `verdict.length` is filled in here. Returns false, and
  // sends nothing, where that round is no longer waited for (cancelled, or the session is over).
  // A run's brings no more tokens than there is credit for, and under lockstep the activations that
  // it asked for. Any other one ends the connection: see failure().
  bool verdict(wire::Verdict verdict);
  // The next older chunk, as compress_activations() made it, of the last answered Prefill's or
  // Resume's positions: the first ends at the last valid position, the last begins at
  // activations_from. False where that round's are no longer wanted. Any other chunk ends the
  // connection.
  bool activations(wire::Activations chunk);
  // The request failed; the connection goes on. False as above.
  bool refuse(std::uint32_t round, const Error& error);
  // The connection ends with this error. Flush take_output() and close.
  void fail(const Error& error);
  // The server is going away. Flush take_output() and close.
  void close(std::string reason);

  // Nothing but flushing is left to do.
  bool finished() const { return state_ == State::finished; }
  // Why this side ended the connection; nothing if it did not, or said goodbye.
  const std::optional<Error>& failure() const { return failure_; }
  bool signed_in() const { return state_ == State::ready; }
  // A request has no answer yet, or its run goes on.
  bool busy() const { return pending_.has_value(); }
  // Its run waits for the client: for credit, or under lockstep for hints.
  bool paused() const {
    if (!pending_ || !pending_->running) return false;
    const wire::RunTerms& run = pending_->run;
    return length_ >= run.credit ||
           (run.hold == wire::Hold::lockstep && pending_->marked_length != length_);
  }
  // The client may draft on: its answer has not come to an end that the server knows of.
  bool may_go_on() const { return has_root_ && !ended_; }
  // Tokens of the session as the client knows them, root included.
  std::uint32_t length() const { return length_; }
  const TrafficStats& traffic() const { return channel_.traffic(); }

 private:
  enum class State : std::uint8_t { hello, deciding, ready, finished };
  struct Pending {
    wire::Kind kind;
    std::uint32_t round;
    std::uint32_t base_length;
    std::uint32_t given_count;
    std::uint32_t provisional_count;
    wire::ResyncPolicy policy;
    std::uint32_t activations_from;
    wire::RunTerms run{};
    bool running = false;             // it was answered, and its run goes on
    std::uint32_t marked_length = 0;  // for which complete hints came last
    std::size_t marked_count = 0;     // their nodes
  };

  Result<void> handle(wire::Message message);
  Result<void> on_hello(wire::Hello hello);
  Result<void> on_prefill(wire::Prefill request);
  Result<void> on_resume(wire::Resume request);
  Result<void> on_hints(wire::Hints hints);
  Result<void> on_cancel(const wire::Cancel& cancel);
  Result<void> begin(Pending pending);
  bool affords(const wire::Hints& hints);
  bool awaited() const { return busy() || owed_.first != owed_.end; }
  bool answers(std::uint32_t round) const;
  // The session's length behind this answer to the pending request; nothing if it does not fit.
  std::optional<std::uint64_t> length_after(const wire::Verdict& verdict) const;
  std::uint64_t pad_bytes(std::uint64_t rows, std::uint64_t bytes) const;
  Error faulty(Error error);

  ServerSessionOptions options_;
  Channel channel_;
  State state_ = State::hello;
  std::uint16_t version_ = 0;
  std::uint16_t pad_tick_ms_ = 0;
  std::optional<Error> failure_;
  std::uint32_t context_count_ = 0;
  std::uint32_t nodes_max_ = 0;
  ActivationLayout layout_;
  bool newest_row_ = false;  // verdicts bring no others
  std::uint32_t padded_row_bytes_ = 0;
  std::deque<ServerEvent> events_;

  // What hints may still come, and as of when.
  double hints_left_ = kHintsBurst;
  Instant hints_counted_;
  Instant now_;

  std::uint32_t last_round_ = 0;
  std::uint32_t cancelled_round_ = 0;  // the last that was; 0: none
  std::optional<Pending> pending_;
  std::uint32_t length_ = 0;
  bool has_root_ = false;
  bool ended_ = false;
  // Activations still to be sent: rows of [first, end) for the request `round`.
  struct Owed {
    std::uint32_t round = 0;
    std::uint32_t first = 0;
    std::uint32_t end = 0;
  } owed_;
  // For a run that brings its rows apart: the position whose row is sent next.
  struct RunRows {
    std::uint32_t round = 0;
    std::uint32_t next = 0;
  } run_rows_;
};

}  // namespace edgedraft
