#pragma once

#include <cstdint>

namespace edgedraft {

// A node of the draft tree that runs ahead of the server.
struct HintNode {
  std::uint32_t token = 0;
  // Node id minus its parent's id; 0: child of the conversation's last token.
  std::uint16_t distance = 0;
  std::uint8_t score = 0;  // drop from the parent's score, in fractions of a nat (score.h)
  bool operator==(const HintNode&) const = default;
};

}  // namespace edgedraft
