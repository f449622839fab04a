#include "netsim/link/delivery_trace.h"

#include <algorithm>
#include <charconv>
#include <string>

#include "shared/base/check.h"

namespace edgedraft::netsim {

Result<DeliveryTrace> parse_delivery_trace(std::string_view text, std::string_view name) {
  DeliveryTrace trace;
  std::size_t line_number = 0;
  const auto wrong = [&](const std::string& what) {
    return Error{Errc::usage, std::string(name) + ":" + std::to_string(line_number) + ": " + what};
  };
  while (!text.empty()) {
    const std::size_t end = std::min(text.find('\n'), text.size());
    std::string_view line = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    ++line_number;
    while (!line.empty() && (line.back() == '\r' || line.back() == ' ')) line.remove_suffix(1);
    if (line.empty()) continue;
    std::uint32_t at = 0;
    const auto [stop, error] = std::from_chars(line.data(), line.data() + line.size(), at);
    if (error != std::errc() || stop != line.data() + line.size()) {
      return wrong("expected a whole number of milliseconds, one per line");
    }
    if (!trace.at_ms.empty() && at < trace.at_ms.back()) {
      return wrong("earlier than the line before; times must not decrease");
    }
    if (trace.at_ms.size() == kTraceLinesMax) {
      return wrong("more than " + std::to_string(kTraceLinesMax) + " lines; give a shorter trace");
    }
    trace.at_ms.push_back(at);
  }
  if (trace.at_ms.empty()) return wrong("empty trace; to take the link down use an event `down`");
  if (trace.at_ms.back() == 0) {
    return wrong("the last time is the trace's period and must be above 0");
  }
  return trace;
}

TracePlayer::TracePlayer(DeliveryTrace trace) : trace_(std::move(trace)) {
  EDGEDRAFT_CHECK(!trace_.at_ms.empty() && trace_.at_ms.back() > 0);
}

Duration TracePlayer::time() const {
  return std::chrono::milliseconds(lap_ * trace_.at_ms.back() + trace_.at_ms[index_]);
}

void TracePlayer::next() {
  bytes_left_ = kTraceOpportunityBytes;
  if (++index_ < trace_.at_ms.size()) return;
  index_ = 0;
  ++lap_;
}

Duration TracePlayer::send(Duration since, std::uint32_t bytes) {
  if (time() < since) {
    // Skips whole periods at once, so that a long silence costs nothing.
    const auto period = std::chrono::milliseconds(trace_.at_ms.back());
    // The last opportunity of a period falls on its end and belongs to it.
    const auto lap = static_cast<std::uint64_t>((since - Duration(1)) / period);
    if (lap > lap_) {
      lap_ = lap;
      index_ = 0;
    }
    const Duration in_lap = since - lap_ * period;
    const auto first = trace_.at_ms.begin() + static_cast<std::ptrdiff_t>(index_);
    const auto found = std::lower_bound(
        first, trace_.at_ms.end(), in_lap,
        [](std::uint32_t at, Duration limit) { return std::chrono::milliseconds(at) < limit; });
    index_ = static_cast<std::size_t>(found - trace_.at_ms.begin());
    bytes_left_ = kTraceOpportunityBytes;
  }
  Duration sent_at = time();
  while (bytes > 0) {
    if (bytes_left_ == 0) next();
    sent_at = time();
    const std::uint32_t part = std::min(bytes, bytes_left_);
    bytes_left_ -= part;
    bytes -= part;
  }
  return sent_at;
}

}  // namespace edgedraft::netsim
