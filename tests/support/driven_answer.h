#pragma once

#include <algorithm>
#include <chrono>
#include <functional>

#include "client/generation/generation.h"

namespace edgedraft::testing {
using namespace client;

// Drives an answer that has begun to its end, on a link that may be waited on. Waits are cut into
// slices, and `cancelled` is called between them.
inline Result<GenerationEnd> drive(
    Generation& generation, TargetLink& link, const std::function<Instant()>& now,
    const std::function<bool()>& cancelled = [] { return false; }) {
  constexpr Duration kSlice = std::chrono::milliseconds(50);
  while (!generation.over()) {
    if (cancelled()) {
      generation.cancel();
    } else {
      generation.go_on(link.wait_event(std::min(generation.wait_end(), now() + kSlice)));
    }
  }
  return generation.end();
}

}  // namespace edgedraft::testing
