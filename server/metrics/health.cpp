#include "server/metrics/health.h"

namespace edgedraft {

void Health::device_failed(const std::string& reason, bool lost) {
  const Device now = lost ? Device::lost : Device::failed;
  {
    const std::lock_guard lock(mutex_);
    const bool known = device_.load(std::memory_order_relaxed) == now && reason_ == reason;
    device_.store(now, std::memory_order_relaxed);
    reason_ = reason;
    if (known) return;
  }
  if (report_) report_(now, reason);
}

void Health::recover() {
  {
    const std::lock_guard lock(mutex_);
    device_.store(Device::works, std::memory_order_relaxed);
    reason_.clear();
  }
  if (report_) report_(Device::works, {});
}

Health::View Health::view() const {
  const std::lock_guard lock(mutex_);
  return {.phase = phase_.load(std::memory_order_relaxed),
          .device = device_.load(std::memory_order_relaxed),
          .reason = reason_};
}

}  // namespace edgedraft
