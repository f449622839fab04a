#pragma once

#include "shared/base/bytes.h"

namespace edgedraft {

// Whether two secrets are equal, in a time that tells nothing of where they differ, nor of the
// length of either.
bool equal_in_constant_time(ByteView a, ByteView b);

}  // namespace edgedraft
