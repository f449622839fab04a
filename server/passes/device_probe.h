#pragma once

#include <memory>

#include "shared/runtime/backend.h"

namespace edgedraft::server {

// Checks after a failure whether the device still works. Running out of memory is transient; a
// kernel that broke the device's context is not.
//
// Threads   the backend's
class DeviceProbe {
 public:
  // Requires  the backend outlives it
  // Errors    throws DeviceError
  explicit DeviceProbe(Backend& backend);

  // True if the device returns a value written to it. Allocates nothing.
  bool device_answers() const;

 private:
  bool number_comes_back() const;

  Backend& backend_;
  std::unique_ptr<Buffer> number_;
};

}  // namespace edgedraft::server
