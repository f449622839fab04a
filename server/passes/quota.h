#pragma once

#include <cstdint>

namespace edgedraft::server {

// Limits of one identity; 0: none.
struct Quota {
  std::uint32_t sessions_max = 0;
  std::uint32_t tokens_per_minute = 0;  // rows that passes compute for it
};

}  // namespace edgedraft::server
