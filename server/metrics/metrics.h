#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "server/metrics/health.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

// What a server counts about itself. Threads that count never wait for each other or for those who
// read; a reader may see one number before and another after the same event.
namespace edgedraft {

// Threads   any
class Counter {
 public:
  void add(std::uint64_t n = 1) { value_.fetch_add(n, std::memory_order_relaxed); }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_ = 0;
};

// Threads   any
class Gauge {
 public:
  void set(std::uint64_t value) { value_.store(value, std::memory_order_relaxed); }
  std::uint64_t value() const { return value_.load(std::memory_order_relaxed); }

 private:
  std::atomic<std::uint64_t> value_ = 0;
};

// How many observations were at most each bound.
//
// Threads   any
class Histogram {
 public:
  static constexpr std::size_t kBoundsMax = 16;

  // Requires  ascending bounds that outlive it, kBoundsMax at most
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds) {}

  // `times` observations of `value`.
  void observe(double value, std::uint64_t times = 1) {
    std::size_t i = 0;
    while (i < bounds_.size() && value > bounds_[i]) ++i;
    counts_[i].add(times);
    sum_.fetch_add(value * static_cast<double>(times), std::memory_order_relaxed);
  }

  std::span<const double> bounds() const { return bounds_; }
  // Observations above the bound before and not above this one; behind the last bound the rest.
  std::uint64_t count(std::size_t i) const { return counts_[i].value(); }
  double sum() const { return sum_.load(std::memory_order_relaxed); }

 private:
  std::span<const double> bounds_;
  std::array<Counter, kBoundsMax + 1> counts_{};
  std::atomic<double> sum_ = 0.0;
};

inline constexpr std::array kSecondsBounds = {0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1,
                                              0.25,  0.5,    1.0,   2.5,  5.0,   10.0, 30.0};
inline constexpr std::array kRowsBounds = {1.0, 2.0, 4.0, 8.0, 16.0, 32.0, 64.0, 128.0, 256.0};

// Why a request got no answer. The renderer has their names.
enum class Refusal : std::uint8_t {
  queue_full,       // more requests than the queue takes
  no_room,          // no session or no memory to be had
  context_full,     // more tokens than the context holds
  session_unknown,  // forgotten, or another one's: the client sends everything again
  invalid,          // tokens or positions that cannot be
  device,           // the device failed
  deadline,         // no turn for too long
  fault,            // of the server's own, which cost the session
  grammars,         // the client's took too much time
};
inline constexpr std::size_t kRefusals = 9;

// Why a session refused a request.
inline Refusal refusal_of(Errc code) {
  if (code == Errc::refused) return Refusal::no_room;
  if (code == Errc::context_full) return Refusal::context_full;
  if (code == Errc::session_unknown) return Refusal::session_unknown;
  return Refusal::invalid;
}

// What became of a hint.
enum class HintFate : std::uint8_t {
  taken,         // into its session's tree
  passed,        // the server had chosen that token by itself
  contradicted,  // it had chosen another one
  unknown,       // below nothing that is known, sent again, or no token of the target
  evicted,       // for better ones
};
inline constexpr std::size_t kHintFates = 5;

// Why a connection came to nothing.
enum class Rejection : std::uint8_t {
  tls,           // the handshake broke, or was none
  tls_timeout,   // it was not over in time
  unauthorized,  // no token, or a wrong one
  mismatch,      // another target, tokenizer or drafter
};
inline constexpr std::size_t kRejections = 4;

// Why a frame was the last of its connection.
enum class BadFrame : std::uint8_t { too_large, malformed, protocol, version };
inline constexpr std::size_t kBadFrames = 4;

struct Metrics {
  // Accepted tokens are counted apart for so many positions of a draft; deeper ones are not.
  static constexpr std::size_t kPositions = 16;

  // Requests.
  Gauge requests_open;     // that wait or run
  Gauge requests_running;  // of these, in the pass that is under way
  Gauge requests_paused;   // and those whose clients do not read, or give no credit
  Gauge requests_held;     // and those that wait for hints
  Counter prompt_tokens;
  Counter generated_tokens;
  Counter drafts;
  Counter draft_tokens;
  Counter accepted_tokens;
  Counter probe_rows;
  Counter steps_without_drafter;  // as there was no memory for one
  std::array<Counter, kPositions> accepted_at{};
  std::array<Counter, kHintFates> hints{};  // by node
  std::array<Counter, kRefusals> refusals{};
  Histogram time_to_first_token{kSecondsBounds};
  Histogram inter_token_latency{kSecondsBounds};
  Histogram queue_time{kSecondsBounds};
  Histogram verify_time{kSecondsBounds};

  // Passes.
  Counter passes;
  Histogram pass_rows{kRowsBounds};
  Histogram pass_time{kSecondsBounds};
  Counter device_failures;
  Health health;

  // Sessions and their keys and values.
  Gauge sessions;
  Gauge sessions_max;
  Gauge kv_bytes;          // of pages in use
  Gauge kv_bytes_max;      // of the pool
  Gauge kv_tokens_reused;  // of prompts that began as another did, since the start
  Gauge prompts_waiting;   // for memory
  Gauge evicted_sessions;  // since the start
  Counter resumed_sessions;
  Counter unknown_sessions;  // that a client wanted to resume

  // Connections; what the listener counts is its own (shared/net/listener.h).
  std::array<Counter, kRejections> rejections{};
  std::array<Counter, kBadFrames> bad_frames{};
  Counter activation_bytes;
  Gauge certificate_expiry;  // seconds since 1970

  // A pass of so many rows succeeded.
  void pass(std::uint32_t rows, Duration time) {
    passes.add();
    pass_rows.observe(rows);
    pass_time.observe(seconds(time));
    health.pass_took(time);
    health.device_works();
  }

  // A prompt has its first token, so long after it came. One that is not new goes on with an answer
  // that a stream began.
  void prompt_answered(bool is_new, Duration since_posted) {
    generated_tokens.add();
    if (is_new) time_to_first_token.observe(seconds(since_posted));
  }

  // A draft of `nodes` tokens brought `accepted` of them and one more, so long after the session's
  // answer before.
  void draft_answered(std::uint32_t nodes, std::uint32_t accepted, Duration since_last) {
    const std::uint64_t tokens = std::uint64_t{accepted} + 1;
    generated_tokens.add(tokens);
    inter_token_latency.observe(seconds(since_last) / static_cast<double>(tokens), tokens);
    if (nodes == 0) return;
    drafts.add();
    draft_tokens.add(nodes);
    accepted_tokens.add(accepted);
    for (std::size_t i = 0; i < accepted && i < kPositions; ++i) accepted_at[i].add();
  }

  void answered(Duration queued, Duration verified) {
    queue_time.observe(seconds(queued));
    verify_time.observe(seconds(verified));
  }

  void refused(Refusal why) { refusals[static_cast<std::size_t>(why)].add(); }
  void rejected(Rejection why) { rejections[static_cast<std::size_t>(why)].add(); }
  void bad_frame(BadFrame what) { bad_frames[static_cast<std::size_t>(what)].add(); }

  // What a connection's end says about its peer; most ends say nothing. `secured`: it came behind
  // the TLS handshake.
  void connection_ended(bool secured, Errc reason) {
    // It made room for others, which the listener counts.
    if (reason == Errc::refused) return;
    if (!secured) {
      rejected(reason == Errc::timed_out ? Rejection::tls_timeout : Rejection::tls);
      return;
    }
    if (reason == Errc::frame_too_large) bad_frame(BadFrame::too_large);
    if (reason == Errc::bad_message) bad_frame(BadFrame::malformed);
    if (reason == Errc::protocol) bad_frame(BadFrame::protocol);
    if (reason == Errc::version) bad_frame(BadFrame::version);
  }
};

}  // namespace edgedraft
