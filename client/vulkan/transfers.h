#pragma once

#include <array>
#include <functional>

#include "client/vulkan/memory.h"
#include "client/vulkan/recording.h"

namespace edgedraft::client::vulkan {

// Moves large data between host and device through a ring of staging memory, in submission order:
// weights in, rows of logits out.
class Transfers {
 public:
  // Size of its staging memory.
  static constexpr std::uint64_t kHostBytes = std::uint64_t{16} << 20;

  Transfers(Device& device, const std::shared_ptr<MemoryMeter>& meter);
  ~Transfers();

  // Writes the bytes that `produce(to, offset)` generates, in consecutive pieces. All but the last
  // are multiples of 1 KiB.
  using Produce = std::function<void(std::span<std::byte> to, std::uint64_t offset)>;
  void write(const Slice& to, const Produce& produce);
  // Reads rows of a slice and waits; from.bytes spans all of them.
  struct Rows {
    std::uint64_t bytes;
    std::uint64_t stride_bytes;
    std::uint64_t count;
  };
  void read(const Slice& from, const Rows& rows, std::span<std::byte> to);
  void write_rows(const Slice& to, const Rows& rows, std::span<const std::byte> from);
  // Bytes per second of a copy within device memory, counted twice: read and written. For
  // measurements.
  double copy_bytes_per_second(const Slice& from, const Slice& to);

 private:
  struct Part {
    Allocation memory;
    VkCommandBuffer commands = VK_NULL_HANDLE;
    std::uint64_t last_run = 0;
  };
  Part& next_part();
  void copy(Part& part, VkBuffer from, VkBuffer to, std::span<const VkBufferCopy> regions);

  Device& device_;
  Arena arena_;
  static constexpr std::size_t kParts = 4;
  std::array<Part, kParts> parts_;
  std::size_t next_ = 0;
};

}  // namespace edgedraft::client::vulkan
