#pragma once

#include <cstdint>
#include <span>

namespace edgedraft {

// Whether `path` leads from the root to ever deeper nodes of the tree with these parents (of nodes
// 1, 2, ...; 0 is the root).
bool is_path_of(std::span<const std::uint8_t> path, std::span<const std::uint8_t> parents);

}  // namespace edgedraft
