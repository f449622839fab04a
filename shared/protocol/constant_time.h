#pragma once

#include "shared/base/bytes.h"

namespace edgedraft {

// Compares two secrets. The time depends neither on where they differ nor on their lengths.
bool equal_in_constant_time(ByteView a, ByteView b);

}  // namespace edgedraft
