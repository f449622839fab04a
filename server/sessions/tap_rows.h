#pragma once

#include <cstdint>

#include "shared/base/bytes.h"
#include "shared/drafting/tap.h"
#include "shared/runtime/kv_cache.h"

namespace edgedraft::server {

// Wire format of a tap's rows for positions first..first + count - 1.
Bytes quantized_rows(Tap& tap, const KvCache& cache, std::uint32_t first, std::uint32_t count);

}  // namespace edgedraft::server
