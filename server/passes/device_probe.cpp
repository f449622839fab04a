#include "server/passes/device_probe.h"

#include <array>

namespace edgedraft::server {

DeviceProbe::DeviceProbe(Backend& backend) : backend_(backend), number_(backend.allocate(1)) {}

bool DeviceProbe::device_answers() const {
  // The first call may report an earlier failure.
  return number_comes_back() || number_comes_back();
}

bool DeviceProbe::number_comes_back() const {
  const Matrix cell{.buffer = number_.get(), .offset = 0, .rows = 1, .cols = 1, .stride = 1};
  const std::array sent{1.0f};
  std::array received{0.0f};
  try {
    backend_.write(cell, sent);
    backend_.read(cell, received);
  } catch (const DeviceError&) {
    return false;
  }
  return received == sent;
}

}  // namespace edgedraft::server
