#pragma once

#include <cstdint>
#include <optional>
#include <span>

#include "client/generation/generation_context.h"

namespace edgedraft::client {

// Mean likelihood of a drafter's latest tokens by its own logits. Threads   one
class DrafterConfidence {
 public:
  // Number of latest tokens that are judged.
  static constexpr std::uint32_t kTokens = 8;

  // Unsure if the geometric mean of the probabilities is below `floor`.
  explicit DrafterConfidence(double floor = 0.0) : floor_(floor) {}

  // Shapes    logits [vocabulary]; `token` was drawn from them
  void observe(std::span<const float> logits, std::uint32_t token);
  // False until kTokens were seen.
  bool unsure() const;

 private:
  double floor_;
  std::uint32_t count_ = 0;
  double logs_[kTokens] = {};  // log probabilities, as a ring
};

// Writes without the server, at the start or during outages, and keeps the deadlines of outages.
class DeviceWriting : GenerationContext {
 public:
  explicit DeviceWriting(const GenerationContext& context) : GenerationContext(context) {}

  void begin();
  // Call if the server is unreachable, or the device answers first.
  void begin_outage();
  // Call once device and server agree again: ends the outage and its deadlines.
  void agree();
  // Restarts the wait for the server at its full length.
  void retry() { check_deadline_.reset(), nothing_to_write_ = false; }

  // True if the device answers and has not handed over.
  bool device_writes() const { return device_writes_; }
  // True if text is written while the server is away.
  bool writes_here() const { return terms_.writes_offline && !nothing_to_write_; }
  // True if an answer can continue, or wait, without the server.
  bool bears_outages() const;

  // Returns the next token; empty if there is none.
  std::optional<std::uint32_t> choose();
  // Handles an empty choose(). Returns true if that ends the answer, false if it waits.
  //
  // Errors    context_full, unsupported: the device was to answer and has no token
  Result<bool> take_nothing();
  // Tokens that the writer can hold; 0: no limit. Hands over if they are used up (automatic route).
  std::uint32_t take_room();
  // Adds to the link's error why the device could not answer instead.
  Error unanswered(Error error) const;

  void await_check() {
    if (!check_deadline_) check_deadline_ = parts_.now() + options_.resync_wait;
  }
  // Deadline for checking offline text, over all outages, or for the server's return if nothing can
  // be written without it. Instant::max() if there is no such wait.
  Instant check_deadline() const { return check_deadline_.value_or(Instant::max()); }
  bool is_overdue() const { return check_deadline_ && parts_.now() >= *check_deadline_; }
  // Time at which offline text becomes final.
  Instant keep_time() const {
    return outage_began_ && terms_.keep_after != Duration::max()
               ? *outage_began_ + terms_.keep_after
               : Instant::max();
  }
  // Makes the offline text final if the outage has lasted long enough. Requires  offline
  void keep_if_due();

 private:
  // The drafter would write without the server, but has never had the activations that it needs.
  bool is_blind() const { return parts_.writer == nullptr && memory_.is_blind(); }
  bool has_writer() const { return parts_.writer != nullptr || parts_.drafter != nullptr; }

  DrafterConfidence confidence_;
  bool device_writes_ = false;
  bool nothing_to_write_ = false;        // the answer waits until check_deadline_
  std::optional<Instant> outage_began_;  // empty after agree()
  std::uint32_t outage_tokens_ = 0;      // written in this outage
  std::optional<Instant> check_deadline_;
};

}  // namespace edgedraft::client
