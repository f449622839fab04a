#include "netsim/link/stream_link.h"

#include <algorithm>

namespace edgedraft::netsim {
namespace {

// Payload of a 1,500-byte packet.
constexpr std::size_t kSegmentBytes = 1448;

}  // namespace

StreamLink::StreamLink(const LinkOptions& options, Duration round_trip, std::uint64_t seed)
    : link_(options, seed, Instant{}), round_trip_(round_trip) {}

Instant StreamLink::arrival(Instant now, std::size_t bytes) {
  now = last_sent_ = std::max(now, last_sent_);
  for (std::size_t sent = 0; sent == 0 || sent < bytes; sent += kSegmentBytes) {
    Instant arrives = now;
    const Fate fate =
        link_.send(now, Link::Packet(std::min(bytes - sent, kSegmentBytes)), &arrives);
    while (link_.receive(arrives)) {
    }
    if (fate != Fate::delivered) {
      // Detected by later segments, or by a timer.
      arrives = std::max(arrives, now) +
                std::max<Duration>(2 * round_trip_, round_trip_ + std::chrono::milliseconds(12));
    }
    last_arrives_ = std::max(arrives, last_arrives_);
  }
  return last_arrives_;
}

}  // namespace edgedraft::netsim
