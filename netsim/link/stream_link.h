#pragma once

#include <cstddef>
#include <cstdint>

#include "netsim/link/link.h"

namespace edgedraft::netsim {

// One direction of a link as seen by a TCP program: bytes arrive in order, and lost data arrives
// after retransmission. Congestion control is not modelled.
class StreamLink {
 public:
  // `round_trip` is the link's mean, after which a loss is detected.
  StreamLink(const LinkOptions& options, Duration round_trip, std::uint64_t seed);

  // Arrival of the last segment of a message of `bytes` bytes written at `now`; times never
  // decrease.
  Instant arrival(Instant now, std::size_t bytes);

 private:
  Link link_;
  Duration round_trip_;
  Instant last_sent_{};
  Instant last_arrives_{};
};

}  // namespace edgedraft::netsim
