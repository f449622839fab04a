#include "shared/protocol/tree_path.h"

namespace edgedraft {

bool is_path_of(std::span<const std::uint8_t> path, std::span<const std::uint8_t> parents) {
  std::uint32_t at = 0;
  for (const std::uint32_t node : path) {
    if (node == 0 || node > parents.size() || parents[node - 1] != at) return false;
    at = node;
  }
  return true;
}

}  // namespace edgedraft
