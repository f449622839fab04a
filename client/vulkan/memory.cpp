#include "client/vulkan/memory.h"

#include <algorithm>
#include <optional>
#include <vector>

#include "shared/runtime/backend.h"

namespace edgedraft::client::vulkan {
namespace {

constexpr VkBufferUsageFlags kUsage = VK_BUFFER_USAGE_STORAGE_BUFFER_BIT |
                                      VK_BUFFER_USAGE_TRANSFER_SRC_BIT |
                                      VK_BUFFER_USAGE_TRANSFER_DST_BIT;
DeviceError out_of_memory(std::uint64_t bytes) {
  return DeviceError("out of device memory: " + std::to_string(bytes) + " bytes requested");
}

// Returns the first type with the wanted and preferred properties, if any, then the first other
// type with the wanted ones.
std::vector<std::uint32_t> memory_types(const VkPhysicalDeviceMemoryProperties& memory,
                                        std::uint32_t allowed, VkMemoryPropertyFlags wanted,
                                        VkMemoryPropertyFlags preferred) {
  std::vector<std::uint32_t> types;
  for (const VkMemoryPropertyFlags flags : {wanted | preferred, wanted}) {
    for (std::uint32_t i = 0; i < memory.memoryTypeCount; ++i) {
      const bool has_flags = (memory.memoryTypes[i].propertyFlags & flags) == flags;
      if ((allowed >> i & 1) == 0 || !has_flags) continue;
      if (!types.empty() && types.front() == i) continue;
      types.push_back(i);
      break;
    }
  }
  return types;
}

}  // namespace

Block::Block(Device& device, const std::shared_ptr<MemoryMeter>& meter, std::uint64_t bytes,
             VkMemoryPropertyFlags wanted, VkMemoryPropertyFlags preferred)
    : bytes_(bytes) {
  const Functions& f = device.functions();
  const VkBufferCreateInfo info{.sType = VK_STRUCTURE_TYPE_BUFFER_CREATE_INFO,
                                .size = bytes,
                                .usage = kUsage,
                                .sharingMode = VK_SHARING_MODE_EXCLUSIVE};
  buffer_ = {f, device.handle(), &Functions::CreateBuffer, info, "create a buffer"};
  const VkBuffer buffer = buffer_.get();

  VkMemoryRequirements needs{};
  f.GetBufferMemoryRequirements(device.handle(), buffer, &needs);
  const auto types = memory_types(device.memory(), needs.memoryTypeBits, wanted, preferred);
  if (types.empty()) throw DeviceError("the Vulkan device has no suitable memory type");
  held_ = HeldMemory(meter, needs.size);
  for (const std::uint32_t type : types) {
    try {
      take_memory(device, needs.size, type);
      break;
    } catch (const DeviceError&) {
      if (type == types.back()) throw;  // preferred memory may be scarce
    }
  }
  const VkDeviceMemory memory = memory_.get();
  check(f.BindBufferMemory(device.handle(), buffer, memory, 0), "bind memory");
  if ((wanted & VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT) != 0) {
    void* mapped = nullptr;
    check(f.MapMemory(device.handle(), memory, 0, VK_WHOLE_SIZE, 0, &mapped), "map memory");
    mapped_ = static_cast<std::byte*>(mapped);
  }
  free_[0] = bytes;
}

void Block::take_memory(Device& device, std::uint64_t bytes, std::uint32_t type) {
  const VkPhysicalDeviceMemoryProperties& kinds = device.memory();
  const std::uint64_t heap_bytes = kinds.memoryHeaps[kinds.memoryTypes[type].heapIndex].size;
  if (bytes > heap_bytes) throw out_of_memory(bytes_);  // layers and drivers may not check
  const VkMemoryAllocateInfo allocate{.sType = VK_STRUCTURE_TYPE_MEMORY_ALLOCATE_INFO,
                                      .allocationSize = bytes,
                                      .memoryTypeIndex = type};
  memory_ = {device.functions(), device.handle(), &Functions::AllocateMemory, allocate,
             "allocate memory"};
}

Allocation::~Allocation() {
  if (arena_ != nullptr) arena_->release(*block_, offset_, bytes_);
}

Allocation Arena::allocate(std::uint64_t bytes) {
  if (bytes > device_.allocation_max()) throw out_of_memory(bytes);
  const std::uint64_t unit = std::max(device_.storage_alignment(), kUnit);
  const std::uint64_t rounded = std::max(unit, (bytes + unit - 1) / unit * unit);
  const auto cut = [&](Block& block) -> std::optional<Allocation> {
    for (auto& [offset, free_bytes] : block.free_) {
      if (free_bytes < rounded) continue;
      const std::uint64_t at = offset;
      const std::uint64_t left = free_bytes - rounded;
      block.free_.erase(at);
      if (left > 0) block.free_[at + rounded] = left;
      return Allocation(*this, block, at, rounded);
    }
    return std::nullopt;
  };
  for (Block& block : blocks_) {
    if (auto allocation = cut(block)) return std::move(*allocation);
  }
  // Several large allocations would leave much of a block unused.
  const bool is_alone = kind_.bytes_max == 0 && rounded > kind_.block_bytes / 4;
  const std::uint64_t block_bytes = is_alone ? rounded : std::max(rounded, kind_.block_bytes);
  if (kind_.bytes_max > 0 && bytes_ + block_bytes > kind_.bytes_max) throw out_of_memory(bytes);
  // If memory is scarce, try a block of this size alone.
  try {
    blocks_.emplace_back(device_, meter_, block_bytes, kind_.wanted, kind_.preferred);
  } catch (const DeviceError&) {
    if (block_bytes == rounded) throw;
    blocks_.emplace_back(device_, meter_, rounded, kind_.wanted, kind_.preferred);
  }
  bytes_ += blocks_.back().bytes_;
  return std::move(*cut(blocks_.back()));
}

void Arena::release(Block& block, std::uint64_t offset, std::uint64_t bytes) noexcept {
  const auto next = block.free_.lower_bound(offset);
  std::uint64_t end = offset + bytes;
  if (next != block.free_.end() && next->first == end) {
    end += next->second;
    block.free_.erase(next);
  }
  auto previous = block.free_.lower_bound(offset);
  if (previous != block.free_.begin() && (--previous)->first + previous->second == offset) {
    previous->second = end - previous->first;
  } else {
    block.free_[offset] = end - offset;
  }
  const bool is_empty = block.free_.size() == 1 && block.free_.begin()->second == block.bytes_;
  if (!is_empty || (block.bytes_ <= kind_.block_bytes && blocks_.size() == 1)) return;
  if (on_release_) on_release_(block);
  bytes_ -= block.bytes_;
  blocks_.remove_if([&](const Block& b) { return &b == &block; });
}

}  // namespace edgedraft::client::vulkan
