#pragma once

#include <cstdint>

namespace edgedraft {

// Whether, and why, an answer ends with a token. Its values are the wire's (docs/protocol.md).
enum class Finish : std::uint8_t {
  none,       // it goes on
  end_token,  // the model ended its answer
  context,    // the context holds no further token
  stop,       // one of the texts is complete that the client named
};

}  // namespace edgedraft
