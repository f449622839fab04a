#pragma once

#include <cstdint>
#include <span>

#include "shared/base/error.h"
#include "shared/drafting/drafter_kind.h"
#include "shared/model/config.h"

// Checks a drafter's file against its target and the link. Fingerprints distinguish undamaged
// files, but do not detect a damaged one.
namespace edgedraft {

// Checks the target sizes that a drafter assumes against the target.
//
// Errors    mismatch naming the size
Result<void> check_target(const DrafterFacts& facts, const DecoderConfig& target);

// Checks that the target's layers are Llama's, for drafters that read their keys and values.
//
// Errors    unsupported
Result<void> check_plain(const DecoderConfig& target);

// Checks that the link can carry rows of these groups (Tap::scale_groups).
//
// Errors    unsupported
Result<void> check_row(std::span<const std::uint32_t> scale_groups);

}  // namespace edgedraft
