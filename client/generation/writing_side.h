#pragma once

#include <cstdint>

namespace edgedraft::client {

// Which side writes an answer while the server is reachable.
enum class WritingSide : std::uint8_t {
  server,     // the target, with the drafter's proposals
  device,     // the drafter alone; nothing is sent
  automatic,  // the drafter until it is unsure, then the target
};

}  // namespace edgedraft::client
