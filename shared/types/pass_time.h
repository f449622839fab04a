#pragma once

#include <cstdint>

namespace edgedraft {

// Measured time of a target pass of `rows` rows.
struct PassTime {
  std::uint32_t rows = 0;
  std::uint32_t microseconds = 0;
  bool operator==(const PassTime&) const = default;
};

}  // namespace edgedraft
