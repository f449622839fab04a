#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <memory>

namespace edgedraft {

// Counts the memory of backends and of everything built on them, and enforces a limit.
//
// Counted is memory that the system cannot drop: reordered or uploaded weights, tables, caches,
// intermediate rows, and drafters' conversation state. Weights read from a mapped file do not
// count.
//
// Threads   any
class MemoryMeter {
 public:
  static constexpr std::uint64_t kUnlimited = std::numeric_limits<std::uint64_t>::max();
  enum class Use : std::uint8_t { weights, working };

  explicit MemoryMeter(std::uint64_t limit = kUnlimited) : limit_(limit) {}
  MemoryMeter(const MemoryMeter&) = delete;
  MemoryMeter& operator=(const MemoryMeter&) = delete;

  std::uint64_t limit() const { return limit_; }
  bool is_limited() const { return limit_ != kUnlimited; }
  std::uint64_t held() const { return held_; }
  std::uint64_t held(Use use) const { return by_use_[static_cast<std::size_t>(use)]; }
  // Highest total so far.
  std::uint64_t peak() const { return peak_; }

 private:
  friend class HeldMemory;
  // Throws DeviceError with the limit if it would be exceeded.
  void take(std::uint64_t bytes, Use use);
  void give_back(std::uint64_t bytes, Use use) noexcept;

  std::uint64_t limit_;
  std::atomic<std::uint64_t> held_ = 0;
  std::atomic<std::uint64_t> peak_ = 0;
  std::array<std::atomic<std::uint64_t>, 2> by_use_{};
};

// Bytes reserved at a meter until destroyed. Declare it beside the memory that it counts, before
// it.
class HeldMemory {
 public:
  HeldMemory() = default;
  // Throws DeviceError if the limit would be exceeded. A null meter counts nothing.
  HeldMemory(std::shared_ptr<MemoryMeter> meter, std::uint64_t bytes,
             MemoryMeter::Use use = MemoryMeter::Use::working);
  ~HeldMemory();
  HeldMemory(HeldMemory&& other) noexcept;
  HeldMemory& operator=(HeldMemory&& other) noexcept;

 private:
  std::shared_ptr<MemoryMeter> meter_;
  std::uint64_t bytes_ = 0;
  MemoryMeter::Use use_ = MemoryMeter::Use::working;
};

}  // namespace edgedraft
