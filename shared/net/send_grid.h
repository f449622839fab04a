#pragma once

#include <chrono>
#include <cstdint>
#include <mutex>

#include "shared/base/clock.h"

namespace edgedraft {

// When links may send while the device computes what nobody is to learn of: that work delays what
// else the device computes, and so the moments at which that is sent. While it goes on these are
// steps of 20 ms, and as its end would tell how long it was, so they stay up to a step of 10 s.
//
// Threads   any
class SendGrid {
 public:
  static constexpr Duration kStep = std::chrono::milliseconds(20);
  static constexpr Duration kEndStep = std::chrono::seconds(10);

  // When what is ready now may be sent: now, or at the next step.
  Instant release(Instant now) const;

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
  mutable std::mutex mutex_;
  std::uint32_t holds_ = 0;
  Instant until_ = Instant::min();  // behind the last of them
};

}  // namespace edgedraft
