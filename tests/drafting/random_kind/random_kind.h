#pragma once

#include <cstdint>

#include "shared/drafting/drafter_kind.h"

namespace edgedraft::testing {

// A kind of drafter that nobody else knows: it proposes random tokens, and has a tap of its own
// whose rows it checks and counts. To add it is add_drafter_kind(kRandomKind).
extern const DrafterKind kRandomKind;

// How many rows of activations drafters of this kind were sent so far.
std::uint32_t random_kind_rows();

}  // namespace edgedraft::testing
