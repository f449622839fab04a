#pragma once

#include <array>
#include <cstdint>
#include <span>
#include <type_traits>
#include <vector>

#include "client/vulkan/memory.h"
#include "client/vulkan/pipelines.h"
#include "client/vulkan/vulkan_backend.h"
#include "shaders/params.h"

namespace edgedraft::client::vulkan {

// Bytes of a block, as used by a command.
struct Slice {
  const Block* block = nullptr;
  std::uint64_t offset = 0;
  std::uint64_t bytes = 0;
};

// A step of a command buffer with its fixed arguments. Steps with equal bytes do the same.
struct Command {
  enum Kind : std::uint32_t {
    dispatch,
    fill,      // slices[0] with zeros
    copy_in,   // from the call buffer to rows in slices[0]
    copy_out,  // from rows in slices[0] to the results
  };
  Kind kind = dispatch;
  std::uint32_t groups_x = 0;
  std::uint32_t groups_y = 0;
  std::uint32_t written = 0;  // bit i: slices[i] is written
  const Pipeline* pipeline = nullptr;
  std::array<Slice, shaders::kBindingsMax> slices{};
  std::array<std::uint32_t, 20> push{};
  // Arguments of a copy.
  std::uint64_t host_offset = 0;
  std::uint64_t row_bytes = 0;
  std::uint64_t row_stride_bytes = 0;
  std::uint64_t row_count = 0;
};
static_assert(std::has_unique_object_representations_v<Command>);

// True if a command reads or writes the block.
bool uses(std::span<const Command> commands, const Block& block);

// Positions of timestamps: before the first and after the last command, or around every one.
using Timing = MeasuredBackend::Timing;

// A command buffer for a list of commands, with host-visible memory for its call buffer and
// results. Recorded once, it runs any number of times, one run at a time.
class Recording {
 public:
  // Throws DeviceError.
  Recording(Device& device, const Pipelines& pipelines, Arena& calls, Arena& results,
            std::span<const Command> commands, std::uint64_t call_bytes, std::uint64_t result_bytes,
            Timing timing);
  ~Recording();
  Recording(const Recording&) = delete;
  Recording& operator=(const Recording&) = delete;

  // Writes the call buffer and submits. Returns the timeline's value after the run.
  std::uint64_t run(std::span<const std::byte> call);
  // True if it was recorded from these commands.
  bool is_of(std::span<const Command> commands, std::uint64_t call_bytes,
             std::uint64_t result_bytes, Timing timing) const;
  // Timeline value at the end of its last run.
  std::uint64_t last_run() const { return last_run_; }
  // Valid from the end of the last run until the next run.
  std::span<const std::byte> results() const;
  // Seconds between timestamps of the last run: one per command, or one in all.
  std::vector<double> seconds() const;
  std::span<const Command> commands() const { return commands_; }

 private:
  void record(const Pipelines& pipelines);
  void record_command(const Pipelines& pipelines, const Command& command, VkDescriptorSet set);
  void stamp(std::uint32_t index);
  std::vector<VkDescriptorSet> make_sets(const Pipelines& pipelines);

  Device& device_;
  std::vector<Command> commands_;
  std::uint64_t call_bytes_;
  std::uint64_t result_bytes_;
  Timing timing_;
  Allocation call_;
  Allocation results_;  // empty without results
  Owned<VkDescriptorPool, &Functions::DestroyDescriptorPool> sets_;
  Owned<VkQueryPool, &Functions::DestroyQueryPool> stamps_;
  std::uint32_t stamp_count_ = 0;
  VkCommandBuffer buffer_ = VK_NULL_HANDLE;
  std::uint64_t last_run_ = 0;
};

}  // namespace edgedraft::client::vulkan
