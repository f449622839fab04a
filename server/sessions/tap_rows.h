#pragma once

#include <cstdint>

#include "shared/base/bytes.h"
#include "shared/drafting/tap.h"
#include "shared/runtime/kv_cache.h"

namespace edgedraft {

// A tap's rows of positions first..first + count - 1 as they cross the link.
Bytes quantized_rows(Tap& tap, const KvCache& cache, std::uint32_t first, std::uint32_t count);

}  // namespace edgedraft
