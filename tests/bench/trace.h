#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

namespace edgedraft::bench {

// What an observer at a device's end of the link sees of an answer, from its request on and until
// the next: when something passed, which way, and its size without TLS.
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
