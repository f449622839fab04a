#pragma once

#include "shared/drafting/eagle/eagle_network.h"
#include "shared/drafting/memory_drafter.h"

namespace edgedraft {

using EagleDrafter = MemoryDrafter<EagleNetwork>;

}  // namespace edgedraft
