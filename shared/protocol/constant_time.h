#pragma once

#include "shared/base/bytes.h"
#include "shared/base/sha256.h"

namespace edgedraft {

// Compares two secrets. The time depends neither on where they differ nor on their lengths.
bool equal_in_constant_time(ByteView a, ByteView b);
// As above, for secrets that are already hashed.
bool equal_in_constant_time(const Digest& a, const Digest& b);

}  // namespace edgedraft
