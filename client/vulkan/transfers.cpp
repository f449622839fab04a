#include "client/vulkan/transfers.h"

#include <algorithm>
#include <cstring>

#include "shared/base/check.h"
#include "shared/base/clock.h"

namespace edgedraft::client::vulkan {
namespace {

constexpr std::uint64_t kPartBytes = Transfers::kHostBytes / 4;

}  // namespace

Transfers::Transfers(Device& device, const std::shared_ptr<MemoryMeter>& meter)
    : device_(device),
      arena_(device, meter,
             {.wanted = VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT,
              .preferred = VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
              .block_bytes = kHostBytes}) {
  for (Part& part : parts_) {
    part.memory = arena_.allocate(kPartBytes);
    const VkCommandBufferAllocateInfo allocate{
        .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
        .commandPool = device.command_pool(),
        .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
        .commandBufferCount = 1};
    // Freed with the pool.
    check(device.functions().AllocateCommandBuffers(device.handle(), &allocate, &part.commands),
          "allocate a command buffer");
  }
}

Transfers::~Transfers() {
  device_.wait_idle();
}

Transfers::Part& Transfers::next_part() {
  Part& part = parts_[next_++ % parts_.size()];
  device_.wait(part.last_run);
  return part;
}

void Transfers::copy(Part& part, VkBuffer from, VkBuffer to,
                     std::span<const VkBufferCopy> regions) {
  const Functions& f = device_.functions();
  const VkCommandBufferBeginInfo begin{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO,
                                       .flags = VK_COMMAND_BUFFER_USAGE_ONE_TIME_SUBMIT_BIT};
  check(f.BeginCommandBuffer(part.commands, &begin), "record commands");
  full_barrier(f, part.commands);
  f.CmdCopyBuffer(part.commands, from, to, static_cast<std::uint32_t>(regions.size()),
                  regions.data());
  full_barrier(f, part.commands);
  check(f.EndCommandBuffer(part.commands), "record commands");
  part.last_run = device_.submit(part.commands);
}

void Transfers::write(const Slice& to, const Produce& produce) {
  for (std::uint64_t done = 0; done < to.bytes; done += kPartBytes) {
    Part& part = next_part();
    const std::uint64_t bytes = std::min(kPartBytes, to.bytes - done);
    produce({part.memory.mapped(), static_cast<std::size_t>(bytes)}, done);
    const VkBufferCopy region{
        .srcOffset = part.memory.offset(), .dstOffset = to.offset + done, .size = bytes};
    copy(part, part.memory.block()->buffer(), to.block->buffer(), {&region, 1});
  }
}

void Transfers::write_rows(const Slice& to, const Rows& rows, std::span<const std::byte> from) {
  if (rows.stride_bytes == rows.bytes) {
    write(to, [&](std::span<std::byte> piece, std::uint64_t offset) {
      std::memcpy(piece.data(), from.data() + offset, piece.size());
    });
    return;
  }
  EDGEDRAFT_CHECK(rows.bytes <= kPartBytes);
  const std::uint64_t rows_a_part = kPartBytes / rows.bytes;
  for (std::uint64_t first = 0; first < rows.count; first += rows_a_part) {
    Part& part = next_part();
    std::vector<VkBufferCopy> regions;
    const std::uint64_t count = std::min(rows_a_part, rows.count - first);
    for (std::uint64_t r = 0; r < count; ++r) {
      regions.push_back({.srcOffset = part.memory.offset() + r * rows.bytes,
                         .dstOffset = to.offset + (first + r) * rows.stride_bytes,
                         .size = rows.bytes});
    }
    std::memcpy(part.memory.mapped(), from.data() + first * rows.bytes, count * rows.bytes);
    copy(part, part.memory.block()->buffer(), to.block->buffer(), regions);
  }
}

void Transfers::read(const Slice& from, const Rows& rows, std::span<std::byte> to) {
  if (rows.stride_bytes == rows.bytes && rows.bytes > kPartBytes) {  // as smaller rows
    for (std::uint64_t done = 0; done < from.bytes; done += kPartBytes) {
      const std::uint64_t bytes = std::min(kPartBytes, from.bytes - done);
      read({.block = from.block, .offset = from.offset + done, .bytes = bytes},
           {.bytes = bytes, .stride_bytes = bytes, .count = 1}, to.subspan(done, bytes));
    }
    return;
  }
  EDGEDRAFT_CHECK(rows.bytes <= kPartBytes);
  const std::uint64_t rows_a_part = kPartBytes / rows.bytes;
  for (std::uint64_t first = 0; first < rows.count; first += rows_a_part) {
    Part& part = next_part();
    std::vector<VkBufferCopy> regions;
    const std::uint64_t count = std::min(rows_a_part, rows.count - first);
    for (std::uint64_t r = 0; r < count; ++r) {
      regions.push_back({.srcOffset = from.offset + (first + r) * rows.stride_bytes,
                         .dstOffset = part.memory.offset() + r * rows.bytes,
                         .size = rows.bytes});
    }
    copy(part, from.block->buffer(), part.memory.block()->buffer(), regions);
    device_.wait(part.last_run);
    std::memcpy(to.data() + first * rows.bytes, part.memory.mapped(), count * rows.bytes);
  }
}

double Transfers::copy_bytes_per_second(const Slice& from, const Slice& to) {
  constexpr int kTries = 12;
  const VkBufferCopy region{
      .srcOffset = from.offset, .dstOffset = to.offset, .size = std::min(from.bytes, to.bytes)};
  double best = 0.0;
  for (int i = 0; i < kTries; ++i) {
    Part& part = next_part();
    const Instant start = Clock::now();
    copy(part, from.block->buffer(), to.block->buffer(), {&region, 1});
    device_.wait(part.last_run);
    best = std::max(best, 2.0 * static_cast<double>(region.size) / seconds(Clock::now() - start));
  }
  return best;
}

}  // namespace edgedraft::client::vulkan
