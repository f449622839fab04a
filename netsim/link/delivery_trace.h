#pragma once

#include <string_view>

#include "netsim/link/options.h"
#include "shared/base/error.h"

namespace edgedraft::netsim {

// Parses a trace in mahimahi's format: one line per delivery opportunity of 1,500 bytes, in whole
// milliseconds since the start. Lines do not decrease; the last is also the period.
//
// Errors   usage   no lines, a non-integer line, a decreasing time, a period of zero, or more than
//                  kTraceLinesMax lines; the message starts with `name` and the line
Result<DeliveryTrace> parse_delivery_trace(std::string_view text, std::string_view name);

inline constexpr std::size_t kTraceLinesMax = 8u << 20;  // two hours at 14 Mbit/s

// Hands out a trace's opportunities in order.
class TracePlayer {
 public:
  explicit TracePlayer(DeliveryTrace trace);

  // Time at which the last of `bytes` bytes, available `since` the start of the trace, leaves.
  // Neither `since` nor the result decreases. The rest of an opportunity serves the next packet
  // only if it is already waiting.
  Duration send(Duration since, std::uint32_t bytes);

 private:
  Duration time() const;
  void next();

  DeliveryTrace trace_;
  std::uint64_t lap_ = 0;
  std::size_t index_ = 0;
  std::uint32_t bytes_left_ = kTraceOpportunityBytes;
};

}  // namespace edgedraft::netsim
