#pragma once

#include <cstdint>
#include <span>

#include "shared/base/error.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/model/config.h"

// What a drafter's file says must go together with what it says nothing of: its target, and the
// link. Fingerprints tell honest files apart and do not make a damaged one sound.
namespace edgedraft {

// Holds the sizes that a drafter takes for its target's against the target.
//
// Errors    mismatch naming the size
Result<void> check_target(const DrafterFacts& facts, const DecoderConfig& target);

// Whether the link carries rows of these groups (Tap::scale_groups).
//
// Errors    unsupported
Result<void> check_row(std::span<const std::uint32_t> scale_groups);

}  // namespace edgedraft
