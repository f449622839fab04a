#pragma once

#include "shared/base/clock.h"

namespace edgedraft::netsim {

// An event of the whole link, both directions at once.
struct LinkEvent {
  enum class Kind {
    down,         // later packets are lost; those in flight arrive
    up,           //
    new_address,  // the device's address changes: its old connections fail silently
  };

  Kind kind = Kind::down;
  Duration at{0};        // since the start of the run
  Duration duration{0};  // down: duration; zero: until an `up`
};

}  // namespace edgedraft::netsim
