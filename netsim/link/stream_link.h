#pragma once

#include <cstddef>
#include <cstdint>

#include "netsim/link/link.h"

namespace edgedraft::netsim {

// One direction of a link as a TCP connection shows it to a program: bytes arrive in order, and
// what is lost comes when it has been sent again. Congestion control is left out.
class StreamLink {
 public:
  // `round_trip` is the link's mean, after which a loss is noticed.
  StreamLink(const LinkOptions& options, Duration round_trip, std::uint64_t seed);

  // When all segments of a message of `bytes` bytes have arrived that is written at `now`; times
  // never fall.
  Instant arrival(Instant now, std::size_t bytes);

 private:
  Link link_;
  Duration round_trip_;
  Instant last_sent_{};
  Instant last_arrives_{};
};

}  // namespace edgedraft::netsim
