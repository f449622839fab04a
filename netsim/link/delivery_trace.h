#pragma once

#include <string_view>

#include "netsim/link/options.h"
#include "shared/base/error.h"

namespace edgedraft::netsim {

// Parses a trace in mahimahi's format: one line a delivery opportunity of 1,500 bytes, a whole
// number of milliseconds since the start, never falling; the last line is also the period.
//
// Errors   usage   no line, something else than a number, a time that falls, a period of zero, more
//                  than kTraceLinesMax lines; `name` and the line stand before the message
Result<DeliveryTrace> parse_delivery_trace(std::string_view text, std::string_view name);

inline constexpr std::size_t kTraceLinesMax = 8u << 20;  // two hours at 14 Mbit/s

// Gives out a trace's opportunities, one after the other.
class TracePlayer {
 public:
  explicit TracePlayer(DeliveryTrace trace);

  // When the last of `bytes` bytes leaves that are there `since` the start of the trace. Calls take
  // turns: `since` and what is returned never fall. What is left of an opportunity serves the
  // next packet only if that is there already.
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
