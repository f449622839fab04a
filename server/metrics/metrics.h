#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>

#include "server/metrics/health.h"
#include "shared/base/clock.h"
#include "shared/base/error.h"

// Server counters. Writers never wait for each other or for readers; a reader may see related
// counters from before and after one event.
namespace edgedraft::server {

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

// Observations per bucket.
//
// Threads   any
class Histogram {
 public:
  static constexpr std::size_t kBoundsMax = 16;

  // Requires  ascending bounds that outlive it, kBoundsMax at most
  explicit Histogram(std::span<const double> bounds) : bounds_(bounds) {}

  // Records `value` `times` times.
  void observe(double value, std::uint64_t times = 1) {
    std::size_t i = 0;
    while (i < bounds_.size() && value > bounds_[i]) ++i;
    counts_[i].add(times);
    sum_.fetch_add(value * static_cast<double>(times), std::memory_order_relaxed);
  }

  std::span<const double> bounds() const { return bounds_; }
  // Observations above the previous bound and at most this one; the last bucket has no upper bound.
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

// Why a request was refused. The renderer names them.
enum class Refusal : std::uint8_t {
  queue_full,       // the queue is full
  no_room,          // no session or memory available
  context_full,     // the tokens exceed the context
  session_unknown,  // dropped, or another client's: the client resends everything
  invalid,          // invalid tokens or positions
  device,           // device failure
  deadline,         // waited too long for a pass
  fault,            // server fault, which dropped the session
  grammars,         // the client's grammars exceeded their time budget
  quota,            // the tenant's sessions or tokens per minute are used up
};
inline constexpr std::size_t kRefusals = 10;

// Refusal for a session's error code.
inline Refusal refusal_of(Errc code) {
  if (code == Errc::refused) return Refusal::no_room;
  if (code == Errc::context_full) return Refusal::context_full;
  if (code == Errc::session_unknown) return Refusal::session_unknown;
  return Refusal::invalid;
}

// Fates of hints.
enum class HintFate : std::uint8_t {
  taken,         // added to its session's tree
  passed,        // the server had already chosen that token
  contradicted,  // the server had chosen another token
  unknown,       // unknown parent, sent again, or outside the vocabulary
  evicted,       // replaced by better ones
};
inline constexpr std::size_t kHintFates = 5;

// Why a connection failed.
enum class Rejection : std::uint8_t {
  tls,           // TLS handshake failed, or was missing
  tls_timeout,   // handshake timeout
  unauthorized,  // missing or wrong token
  mismatch,      // other target, tokenizer or drafter
};
inline constexpr std::size_t kRejections = 4;

// Why a frame closed its connection.
enum class BadFrame : std::uint8_t { too_large, malformed, protocol, version };
inline constexpr std::size_t kBadFrames = 4;

struct Metrics {
  // Draft positions with separate acceptance counts; deeper ones are not counted.
  static constexpr std::size_t kPositions = 16;

  // Requests.
  Gauge requests_open;     // waiting or running
  Gauge requests_running;  // requests in the current pass
  Gauge requests_paused;   // and those paused by their clients (unread or without credit)
  Gauge requests_held;     // and those waiting for hints
  Counter prompt_tokens;
  Counter generated_tokens;
  Counter drafts;
  Counter draft_tokens;
  Counter accepted_tokens;
  Counter probe_rows;
  Counter steps_without_drafter;  // for lack of memory
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
  Gauge kv_bytes;          // size of pages and checkpoints in use
  Gauge kv_bytes_max;      // size of the pools
  Gauge checkpoints;       // of recurrent states, in use
  Gauge checkpoints_max;   // that the memory holds
  Gauge kv_tokens_reused;  // prompt tokens served from the prefix cache, since the start
  Gauge prompts_waiting;   // for memory
  Gauge evicted_sessions;  // since the start
  Counter resumed_sessions;
  Counter unknown_sessions;  // sessions that a Resume did not find

  // Connections; the listener keeps its own counters (shared/net/listener.h).
  std::array<Counter, kRejections> rejections{};
  std::array<Counter, kBadFrames> bad_frames{};
  Counter activation_bytes;
  Gauge certificate_expiry;  // seconds since 1970

  // Records a successful pass of `rows` rows.
  void pass(std::uint32_t rows, Duration time) {
    passes.add();
    pass_rows.observe(rows);
    pass_time.observe(seconds(time));
    health.pass_took(time);
    health.device_works();
  }

  // Records a prompt's time to first token. A prompt that is not new continues a stream's answer.
  void prompt_answered(bool is_new, Duration since_posted) {
    generated_tokens.add();
    if (is_new) time_to_first_token.observe(seconds(since_posted));
  }

  // Records a draft of `nodes` tokens: `accepted` plus one chosen, `since_last` after the session's
  // previous answer.
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

  // Counts a connection that ended because of its peer, by reason; other reasons are not counted.
  // `secured`: after the TLS handshake.
  void connection_ended(bool secured, Errc reason) {
    // Closed in favour of others; the listener counts these.
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

}  // namespace edgedraft::server
