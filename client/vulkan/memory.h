#pragma once

#include <cstdint>
#include <functional>
#include <list>
#include <map>
#include <memory>

#include "client/vulkan/device.h"

namespace edgedraft::vulkan {

// A piece of device memory with one buffer over all of it, from which allocations are cut.
class Block {
 public:
  // Throws DeviceError if there is no memory.
  Block(Device& device, std::uint64_t bytes, VkMemoryPropertyFlags wanted,
        VkMemoryPropertyFlags preferred);

  VkBuffer buffer() const { return buffer_.get(); }
  // Null if the host does not see the memory.
  std::byte* mapped() const { return mapped_; }

 private:
  friend class Arena;

  std::uint64_t bytes_;
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

// Memory of one kind in few large blocks. What is larger than a block gets one of its own. A block
// that has become empty is freed, but for one.
class Arena {
 public:
  struct Kind {
    VkMemoryPropertyFlags wanted;
    VkMemoryPropertyFlags preferred;
    std::uint64_t block_bytes;
  };
  Arena(Device& device, const Kind& kind) : device_(device), kind_(kind) {}

  // Called before a block is freed: nothing may use it afterwards.
  void on_release(std::function<void(const Block&)> call) { on_release_ = std::move(call); }

  // At a multiple of storage_alignment(), uninitialised. Throws DeviceError.
  Allocation allocate(std::uint64_t bytes);

 private:
  friend class Allocation;
  void release(Block& block, std::uint64_t offset, std::uint64_t bytes) noexcept;

  Device& device_;
  Kind kind_;
  std::list<Block> blocks_;
  std::function<void(const Block&)> on_release_;
};

}  // namespace edgedraft::vulkan
