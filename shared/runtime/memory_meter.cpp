#include "shared/runtime/memory_meter.h"

#include <string>
#include <utility>

#include "shared/runtime/backend.h"

namespace edgedraft {

void MemoryMeter::take(std::uint64_t bytes, Use use) {
  std::uint64_t held = held_;
  do {
    if (bytes > limit_ - held) {
      throw DeviceError("out of memory: " + std::to_string(bytes) + " bytes requested, " +
                        std::to_string(held) + " in use, the limit is " + std::to_string(limit_));
    }
  } while (!held_.compare_exchange_weak(held, held + bytes));
  by_use_[static_cast<std::size_t>(use)] += bytes;
  std::uint64_t peak = peak_;
  while (peak < held + bytes && !peak_.compare_exchange_weak(peak, held + bytes)) continue;
}

void MemoryMeter::give_back(std::uint64_t bytes, Use use) noexcept {
  held_ -= bytes;
  by_use_[static_cast<std::size_t>(use)] -= bytes;
}

HeldMemory::HeldMemory(std::shared_ptr<MemoryMeter> meter, std::uint64_t bytes,
                       MemoryMeter::Use use) {
  if (meter == nullptr || bytes == 0) return;
  meter->take(bytes, use);
  meter_ = std::move(meter);
  bytes_ = bytes;
  use_ = use;
}

HeldMemory::~HeldMemory() {
  if (meter_ != nullptr) meter_->give_back(bytes_, use_);
}

HeldMemory::HeldMemory(HeldMemory&& other) noexcept {
  *this = std::move(other);
}

HeldMemory& HeldMemory::operator=(HeldMemory&& other) noexcept {
  std::swap(meter_, other.meter_);
  std::swap(bytes_, other.bytes_);
  std::swap(use_, other.use_);
  return *this;
}

}  // namespace edgedraft
