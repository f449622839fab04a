#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <mutex>
#include <optional>
#include <utility>

#include "shared/base/clock.h"

namespace edgedraft {

// When links send, and conversations go on, while the device computes what nobody is to learn of:
// that work delays what else the device computes, and with it the moments at which that is sent,
// and how much of it. So what comes meanwhile is told at the beginning of a step of 20 ms,
// conversations go on with it once in the step, and what they have to say leaves at the next one.
// As the end of the work would tell how long it was, all that goes on up to a step of 10 s.
//
// Threads   any
class SendGrid {
 public:
  static constexpr Duration kStep = std::chrono::milliseconds(20);
  static constexpr Duration kEndStep = std::chrono::seconds(10);
  // From a step's beginning, when links tell, to its turn, when conversations go on.
  static constexpr Duration kTurnAfter = std::chrono::milliseconds(5);

  explicit SendGrid(std::function<Instant()> now = [] { return Clock::now(); })
      : now_(std::move(now)) {}

  // When what is ready now may be sent, or told: now, or at the next step.
  Instant release(Instant now) const;
  // The last turn up to now; nothing where there are no steps.
  std::optional<Instant> last_turn(Instant now) const;

  // Such work, while it lasts. The grid outlives it.
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
  Instant until_ = Instant::min();  // behind the last of them
};

}  // namespace edgedraft
