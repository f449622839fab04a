#pragma once

#include <cstdint>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <variant>
#include <vector>

#include "shared/protocol/activation_codec.h"
#include "shared/protocol/channel.h"
#include "shared/protocol/message.h"
#include "shared/protocol/receipt.h"

namespace edgedraft {

// Answer with accept() or fail(). `version` is the agreed one.
struct HelloReceived {
  wire::Hello hello;
  std::uint16_t version;
};
// Answer with verdict() or refuse(), and after verdict() with activations() if requested. Credit
// starts a run: further verdicts for the round up to the credit, until one ends the answer or
// refuse() replaces one.
struct PrefillRequested {
  wire::Prefill request;
};
struct ResumeRequested {
  wire::Resume request;
};
// Hints and credit for a run in progress. Needs no answer.
struct HintsReceived {
  wire::Hints hints;
};
// The round was cancelled. Needs no answer.
struct RoundCancelled {
  std::uint32_t round;
};

using ServerEvent =
    std::variant<HelloReceived, PrefillRequested, ResumeRequested, HintsReceived, RoundCancelled>;

struct ServerProtocolOptions {
  ChannelOptions channel{};
  // Queued bytes, without activations of prompts; a client that exceeds this is disconnected.
  std::uint64_t urgent_bytes_max = 16u << 20;
};

// Server half of a connection: takes bytes and time, returns bytes, events and a deadline. It
// enforces order, rounds and lengths. The application checks that tokens are in the vocabulary and
// that a session may be resumed.
//
// An error of receive() or tick() ends the connection. If the client can still read, take_output()
// contains an Error. Flush and close.
class ServerProtocol {
 public:
  ServerProtocol(ServerProtocolOptions options, Instant now);

  // Errors    link_down if the client sent Close or gave up; bad_message, protocol,
  //           frame_too_large, version for a faulty client
  Result<void> receive(Instant now, ByteView bytes);
  // Errors    timed_out after the handshake's, a frame's or the liveness deadline
  Result<void> tick(Instant now);
  Instant next_deadline() const { return channel_.next_deadline(awaited()); }

  bool has_output() const { return channel_.has_output(); }
  bool paces_output() const { return channel_.paces_output(); }
  bool is_behind() const { return channel_.is_behind(); }
  // Chunks of prompts' activations in output that has not been taken.
  std::uint32_t chunks_waiting() const { return channel_.bulk_count(); }
  // Verdicts overtake queued activations.
  Bytes take_output() { return channel_.take_output(); }
  std::optional<ServerEvent> next_event();

  // Pads activations to `padded_row_bytes` per position, so that an experiment can emulate a larger
  // model.
  //
  // Requires  an unanswered HelloReceived
  void accept(wire::Welcome welcome, std::uint32_t padded_row_bytes = 0);

  // Sends the answer to `verdict.round` and sets `verdict.length`. Returns false and sends nothing
  // if that round was cancelled or the connection is over. A run's verdict must stay within its
  // credit and, under lockstep, carry the requested activations; otherwise the connection ends: see
  // failure().
  bool verdict(wire::Verdict verdict);
  // Sends the next older chunk of the last answered Prefill's or Resume's positions, as made by
  // compress_activations(). The first chunk ends at the last valid position, the last one begins at
  // activations_from. Returns false if the round was cancelled. An unexpected chunk ends the
  // connection.
  bool activations(wire::Activations chunk);
  // Reports that the server is reading the request's tokens. Ignored if the round was cancelled.
  void reading(std::uint32_t round);
  // Reports a failed request; the connection stays open. Returns false as above.
  bool refuse(std::uint32_t round, const Error& error);
  // Ends the connection with this error. Flush take_output() and close.
  void fail(const Error& error);
  // Ends the connection because the server stops. Flush take_output() and close.
  void close(std::string reason);

  // Signs receipts with the key that this connection's handshake proved. Without it, verdicts have
  // none. Call before the first receive().
  void set_signer(std::function<Bytes(ByteView statement)> sign) { sign_ = std::move(sign); }

  // Only flushing remains.
  bool finished() const { return state_ == State::finished; }
  // Why this side ended the connection; null if it did not, or closed it in the ordinary way.
  const std::optional<Error>& failure() const { return failure_; }
  bool signed_in() const { return state_ == State::ready; }
  // A request is unanswered, or its run continues.
  bool busy() const { return pending_.has_value(); }
  // The run waits for the client: for credit, or under lockstep for hints.
  bool paused() const {
    if (!pending_ || !pending_->running) return false;
    const wire::RunTerms& run = pending_->run;
    return length_ >= run.credit ||
           (run.hold == wire::Hold::lockstep && pending_->marked_length != length_);
  }
  // The client may continue drafting: as far as the server knows, the answer has not ended.
  bool may_go_on() const { return has_root_ && !ended_; }
  // Tokens that the client holds for the session, root included.
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
    bool running = false;             // answered, and its run continues
    std::uint32_t marked_length = 0;  // length of the last complete hints
    std::size_t marked_count = 0;     // number of their nodes
    // Text and parameters of a requested receipt; null: none is due.
    std::optional<wire::Prefill> attested{};
  };

  Result<void> handle(wire::Message message);
  Result<void> on_hello(wire::Hello hello);
  Result<void> on_prefill(wire::Prefill request);
  Result<void> on_resume(wire::Resume request);
  Result<void> on_hints(wire::Hints hints);
  Result<void> on_cancel(const wire::Cancel& cancel);
  Result<void> begin(Pending pending);
  Bytes receipt_of(wire::Prefill request, const wire::Verdict& verdict) const;
  bool affords(const wire::Hints& hints);
  bool awaited() const { return busy() || owed_.first != owed_.end; }
  bool answers(std::uint32_t round) const;
  // Length of the session after this answer to the pending request; nullopt if it does not fit.
  std::optional<std::uint64_t> length_after(const wire::Verdict& verdict) const;
  std::uint64_t pad_bytes(std::uint64_t rows, std::uint64_t bytes) const;
  Error faulty(Error error);

  ServerProtocolOptions options_;
  Channel channel_;
  State state_ = State::hello;
  std::uint16_t version_ = 0;
  std::uint16_t pad_tick_ms_ = 0;
  std::optional<Error> failure_;
  std::function<Bytes(ByteView statement)> sign_;
  Digest target_{};
  std::string arithmetic_;
  std::uint32_t context_count_ = 0;
  std::uint32_t nodes_max_ = 0;
  ActivationLayout layout_;
  bool newest_row_ = false;  // verdicts carry only the newest row
  std::uint32_t padded_row_bytes_ = 0;
  std::deque<ServerEvent> events_;

  // Hint nodes still allowed as of `hints_counted_`.
  double hints_left_ = kHintsBurst;
  Instant hints_counted_;
  Instant now_;

  std::uint32_t last_round_ = 0;
  std::uint32_t cancelled_round_ = 0;  // newest cancelled round; 0: none
  std::optional<Pending> pending_;
  std::uint32_t length_ = 0;
  bool has_root_ = false;
  bool ended_ = false;
  // Unsent activations: rows [first, end) of request `round`.
  struct Owed {
    std::uint32_t round = 0;
    std::uint32_t first = 0;
    std::uint32_t end = 0;
  } owed_;
  // For a run that sends rows separately: the position of the next row.
  struct RunRows {
    std::uint32_t round = 0;
    std::uint32_t next = 0;
  } run_rows_;
};

}  // namespace edgedraft
