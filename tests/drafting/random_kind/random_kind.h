#pragma once

#include <cstdint>

#include "shared/drafting/drafter_kind.h"

namespace edgedraft::testing {

// A kind of drafter outside the product: it proposes random tokens, and checks and counts the rows
// of its own tap. Register it with add_drafter_kind(kRandomKind).
extern const DrafterKind kRandomKind;

// Returns the number of activation rows sent to drafters of this kind so far.
std::uint32_t random_kind_rows();

}  // namespace edgedraft::testing
