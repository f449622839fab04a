#pragma once

#include <cstdint>
#include <optional>

#include "client/generation/drafter_confidence.h"
#include "client/generation/generation_context.h"

namespace edgedraft {

// Writes without the server, first or in its outages, and keeps their clock.
class DeviceWriting : GenerationContext {
 public:
  explicit DeviceWriting(const GenerationContext& context) : GenerationContext(context) {}

  void begin();
  // The server is gone, or the device answers first.
  void begin_outage();
  // The server has agreed again.
  void agree();
  // The server is asked once more, for as long as at first.
  void retry() { check_deadline_.reset(), nothing_to_write_ = false; }

  // The device answers, and has not handed over.
  bool device_writes() const { return device_writes_; }
  // Text is written while the server is away.
  bool writes_here() const { return terms_.writes_offline && !nothing_to_write_; }
  // Whether an answer can go on, or wait, without the server.
  bool bears_outages() const;

  // The next token; nothing if there is none.
  std::optional<std::uint32_t> choose();
  // There is none: whether that ends the answer. Else it waits for the server.
  //
  // Errors    context_full, unsupported: the device was to answer, and has not a token
  Result<bool> take_nothing();
  // A token was written. Tokens that the writer can hold; 0: that does not matter.
  std::uint32_t take_room();
  // The link's error, and why the device could not answer in the server's place.
  Error unanswered(Error error) const;

  void await_check() {
    if (!check_deadline_) check_deadline_ = parts_.now() + options_.resync_wait;
  }
  // Until when the server is waited for: to check what was written offline, in all its outages, or
  // if there is nothing to write without it. The end of time while it is not.
  Instant check_deadline() const { return check_deadline_.value_or(Instant::max()); }
  bool is_overdue() const { return check_deadline_ && parts_.now() >= *check_deadline_; }
  // When what was written offline becomes part of the text.
  Instant keep_time() const {
    return outage_began_ && terms_.keep_after != Duration::max()
               ? *outage_began_ + terms_.keep_after
               : Instant::max();
  }
  // Makes it part of the text if the outage has lasted for long enough. Requires  offline
  void keep_if_due();

 private:
  // The drafter would write without the server, and has never had the activations that it needs.
  bool is_blind() const { return parts_.writer == nullptr && memory_.is_blind(); }
  bool has_writer() const { return parts_.writer != nullptr || parts_.drafter != nullptr; }

  DrafterConfidence confidence_;
  bool device_writes_ = false;
  bool nothing_to_write_ = false;        // so the answer waits until check_deadline_
  std::optional<Instant> outage_began_;  // until the server has agreed again
  std::uint32_t outage_tokens_ = 0;      // written since then
  std::optional<Instant> check_deadline_;
};

}  // namespace edgedraft
