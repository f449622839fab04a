#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "shared/base/clock.h"

namespace edgedraft {

// Hides the timing of private computations on the device. Such work delays other work, and thereby
// the time and size of messages. While it runs, links report input at the start of a 20 ms step.
// Conversations continue once per step, and their output leaves at the next step. The end of the
// work would reveal its duration, so the grid continues up to a 10 s step.
//
// Threads   any
class SendGrid {
 public:
  static constexpr Duration kStep = std::chrono::milliseconds(20);
  static constexpr Duration kEndStep = std::chrono::seconds(10);
  // Delay in a step between reports of links and the turn of conversations.
  static constexpr Duration kTurnAfter = std::chrono::milliseconds(5);

  explicit SendGrid(std::function<Instant()> now = [] { return Clock::now(); })
      : now_(std::move(now)) {}

  // Earliest time to send or report what is ready now: now, or the next step.
  Instant release(Instant now) const;
  // Latest turn up to now; nullopt without a grid.
  std::optional<Instant> last_turn(Instant now) const;

  // Marks private work in progress. The grid outlives it.
  class Hold {
   public:
    explicit Hold(SendGrid& grid);
    ~Hold();
    Hold(const Hold&) = delete;
    Hold& operator=(const Hold&) = delete;

   private:
    SendGrid& grid_;
  };

 private:
  bool is_held(Instant now) const;

  std::function<Instant()> now_;
  mutable std::mutex mutex_;
  std::uint32_t holds_ = 0;
  Instant until_ = Instant::min();  // end of the last hold, rounded up to its step
};

}  // namespace edgedraft
