#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>
#include <utility>

#include "client/vulkan/device.h"
#include "shared/runtime/memory_meter.h"

namespace edgedraft::vulkan {

// A piece of device memory with one buffer over all of it, from which allocations are cut.
class Block {
 public:
  // Has the preferred properties where a type of memory has them and some is left. Throws
  // DeviceError if there is no memory.
  Block(Device& device, const std::shared_ptr<MemoryMeter>& meter, std::uint64_t bytes,
        VkMemoryPropertyFlags wanted, VkMemoryPropertyFlags preferred);

  VkBuffer buffer() const { return buffer_.get(); }
  // Null if the host does not see the memory.
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

// Part of a block, given back with its owner.
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

// Memory of one kind in few large blocks. What is larger than a quarter of one gets one of its own,
// unless there is a bound. A block that has become empty is freed, but for the last.
class Arena {
 public:
  struct Kind {
    VkMemoryPropertyFlags wanted;
    VkMemoryPropertyFlags preferred;
    std::uint64_t block_bytes;    // 0: each allocation has a block of its own
    std::uint64_t bytes_max = 0;  // of all blocks together; 0: as much as there is
  };
  // `meter` counts the blocks.
  Arena(Device& device, std::shared_ptr<MemoryMeter> meter, const Kind& kind)
      : device_(device), meter_(std::move(meter)), kind_(kind) {}

  // Called before a block is freed: nothing may use it afterwards.
  void on_release(std::function<void(const Block&)> call) { on_release_ = std::move(call); }

  // At a multiple of storage_alignment(), uninitialised. Throws DeviceError.
  Allocation allocate(std::uint64_t bytes);
  // What an allocation takes of a block.
  static constexpr std::uint64_t kUnit = 256;

 private:
  friend class Allocation;
  void release(Block& block, std::uint64_t offset, std::uint64_t bytes) noexcept;

  Device& device_;
  std::shared_ptr<MemoryMeter> meter_;
  Kind kind_;
  std::list<Block> blocks_;
  std::uint64_t bytes_ = 0;  // of all of them
  std::function<void(const Block&)> on_release_;
};

}  // namespace edgedraft::vulkan
