#pragma once

#include <cstdint>

namespace edgedraft::netsim {

// Counters of one direction.
struct DirectionStatistics {
  std::uint64_t packets = 0;  // handed to the link
  std::uint64_t bytes = 0;
  std::uint64_t delivered_packets = 0;
  std::uint64_t delivered_bytes = 0;
  std::uint64_t lost = 0;         // random losses
  std::uint64_t queue_drops = 0;  // the queue was full
  std::uint64_t down_drops = 0;   // the link was down
};

struct LinkStatistics {
  DirectionStatistics up;    // device to server
  DirectionStatistics down;  // server to device
};

}  // namespace edgedraft::netsim
