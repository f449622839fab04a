#pragma once

#include <cstdint>

namespace edgedraft {

// Whether and why an answer ends with a token. Values are those of the wire (docs/protocol.md).
enum class Finish : std::uint8_t {
  none,       // the answer continues
  end_token,  // the model ended its answer
  context,    // the context is full
  stop,       // a stop text of the client is complete
};

}  // namespace edgedraft
