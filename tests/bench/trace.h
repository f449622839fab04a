#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace edgedraft::bench {

// An observer's view of an answer at the device's end of the link, from its request until the next:
// time, direction and size (without TLS) of each packet.
struct Packet {
  double seconds;
  bool up;
  std::uint32_t bytes;
};
struct Trace {
  std::size_t prompt;  // its index
  double seconds;      // until the answer's last token
  std::vector<Packet> packets;
};

}  // namespace edgedraft::bench
