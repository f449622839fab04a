#pragma once

#include <cstdint>

namespace edgedraft {

// A node of a tree that runs ahead of the server.
struct HintNode {
  std::uint32_t token = 0;
  // How many ids its parent's is smaller; 0: it hangs from the conversation's last token.
  std::uint16_t distance = 0;
  std::uint8_t score = 0;  // below the parent's, in parts of a nat (score.h)
  bool operator==(const HintNode&) const = default;
};

}  // namespace edgedraft
