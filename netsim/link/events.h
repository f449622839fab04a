#pragma once

#include "shared/base/clock.h"

namespace edgedraft::netsim {

// Something that happens to the whole link, both directions at once.
struct LinkEvent {
  enum class Kind {
    down,         // what is sent from now on is lost; what is under way arrives
    up,           //
    new_address,  // the device is somewhere else: its old connections lead nowhere, without a word
  };

  Kind kind = Kind::down;
  Duration at{0};        // since the start of the run
  Duration duration{0};  // down: how long; zero: until an `up`
};

}  // namespace edgedraft::netsim
