#pragma once

#include "shared/drafting/memory_drafter.h"
#include "shared/drafting/moa/moa_network.h"

namespace edgedraft {

using MoaDrafter = MemoryDrafter<MoaNetwork>;

}  // namespace edgedraft
