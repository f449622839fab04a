#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <utility>

#include "client/vulkan/device.h"
#include "shared/runtime/memory_meter.h"

namespace edgedraft::client::vulkan {

// Device memory with one buffer over all of it, which is split into allocations.
class Block {
 public:
  // Uses memory with the preferred properties if such a type exists and has space. Throws
  // DeviceError if there is no memory.
  Block(Device& device, const std::shared_ptr<MemoryMeter>& meter, std::uint64_t bytes,
        VkMemoryPropertyFlags wanted, VkMemoryPropertyFlags preferred);

  VkBuffer buffer() const { return buffer_.get(); }
  // Null if the memory is not visible to the host.
  std::byte* mapped() const { return mapped_; }

 private:
  friend class Arena;
  void take_memory(Device& device, std::uint64_t bytes, std::uint32_t type);

  std::uint64_t bytes_;
  HeldMemory held_;
  Owned<VkDeviceMemory, &Functions::FreeMemory> memory_;
  Owned<VkBuffer, &Functions::DestroyBuffer> buffer_;
  std::byte* mapped_ = nullptr;
  std::map<std::uint64_t, std::uint64_t> free_;  // bytes, by offset
};

class Arena;

// Part of a block, returned with its owner.
class Allocation {
 public:
  Allocation() = default;
  Allocation(Arena& arena, Block& block, std::uint64_t offset, std::uint64_t bytes)
      : arena_(&arena), block_(&block), offset_(offset), bytes_(bytes) {}
  ~Allocation();
  Allocation(Allocation&& other) noexcept { swap(other); }
  Allocation& operator=(Allocation&& other) noexcept {
    swap(other);
    return *this;
  }

  const Block* block() const { return block_; }
  std::uint64_t offset() const { return offset_; }
  std::uint64_t bytes() const { return bytes_; }
  std::byte* mapped() const { return block_->mapped() + offset_; }

 private:
  void swap(Allocation& other) {
    std::swap(arena_, other.arena_);
    std::swap(block_, other.block_);
    std::swap(offset_, other.offset_);
    std::swap(bytes_, other.bytes_);
  }

  Arena* arena_ = nullptr;
  Block* block_ = nullptr;
  std::uint64_t offset_ = 0;
  std::uint64_t bytes_ = 0;
};

// Memory of one kind in few large blocks. Without a bound, an allocation above a quarter of a block
// has its own block. Empty blocks are freed, except the last.
class Arena {
 public:
  struct Kind {
    VkMemoryPropertyFlags wanted;
    VkMemoryPropertyFlags preferred;
    std::uint64_t block_bytes;    // 0: one block per allocation
    std::uint64_t bytes_max = 0;  // total size of all blocks; 0: no limit
  };
  // `meter` counts the blocks.
  Arena(Device& device, std::shared_ptr<MemoryMeter> meter, const Kind& kind)
      : device_(device), meter_(std::move(meter)), kind_(kind) {}

  // Sets a call before a block is freed, after which nothing may use it.
  void on_release(std::function<void(const Block&)> call) { on_release_ = std::move(call); }

  // Returns uninitialised memory at a multiple of storage_alignment(). Throws DeviceError.
  Allocation allocate(std::uint64_t bytes);
  // Granularity of allocations.
  static constexpr std::uint64_t kUnit = 256;

 private:
  friend class Allocation;
  void release(Block& block, std::uint64_t offset, std::uint64_t bytes) noexcept;

  Device& device_;
  std::shared_ptr<MemoryMeter> meter_;
  Kind kind_;
  std::list<Block> blocks_;
  std::uint64_t bytes_ = 0;  // total size of all blocks
  std::function<void(const Block&)> on_release_;
};

}  // namespace edgedraft::client::vulkan
