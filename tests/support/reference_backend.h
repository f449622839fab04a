#pragma once

#include <memory>

#include "shared/runtime/backend.h"

namespace edgedraft {

// The executable specification of backend.h: plain loops, sums in float64.
std::unique_ptr<Backend> make_reference_backend();

}  // namespace edgedraft
