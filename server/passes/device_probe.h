#pragma once

#include <memory>

#include "shared/runtime/backend.h"

namespace edgedraft {

// Tells, after a failure, whether the device is still there: out of memory passes, a kernel that
// broke the device's context does not.
//
// Threads   the backend's
class DeviceProbe {
 public:
  // Requires  the backend outlives it
  // Errors    throws DeviceError
  explicit DeviceProbe(Backend& backend);

  // Whether the device still gives back a number that it is given. Needs no memory.
  bool device_answers() const;

 private:
  bool number_comes_back() const;

  Backend& backend_;
  std::unique_ptr<Buffer> number_;
};

}  // namespace edgedraft
