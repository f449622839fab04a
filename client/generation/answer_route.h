#pragma once

#include <cstdint>

namespace edgedraft {

// Which side writes an answer while the server is there.
enum class AnswerRoute : std::uint8_t {
  server,     // the target, through the drafter
  device,     // the drafter alone: nothing is sent
  automatic,  // the drafter, until it is unsure; the target goes on from there
};

}  // namespace edgedraft
