#include "client/vulkan/recording.h"

#include <algorithm>
#include <cstring>

#include "shared/base/check.h"

namespace edgedraft::client::vulkan {
namespace {

// Reads and writes since the last barrier.
class Hazards {
 public:
  // True if the command has to wait for an earlier one.
  bool conflicts(const Command& command) const {
    for (std::size_t i = 0; i < command.slices.size(); ++i) {
      const Slice& slice = command.slices[i];
      if (slice.block == nullptr) continue;
      const bool is_written = (command.written >> i & 1) != 0;
      if (overlaps(written_, slice) || (is_written && overlaps(read_, slice))) return true;
    }
    return false;
  }
  void add(const Command& command) {
    for (std::size_t i = 0; i < command.slices.size(); ++i) {
      if (command.slices[i].block == nullptr) continue;
      ((command.written >> i & 1) != 0 ? written_ : read_).push_back(command.slices[i]);
    }
  }
  void clear() {
    read_.clear();
    written_.clear();
  }

 private:
  static bool overlaps(const std::vector<Slice>& slices, const Slice& s) {
    return std::any_of(slices.begin(), slices.end(), [&](const Slice& other) {
      return other.block == s.block && other.offset < s.offset + s.bytes &&
             s.offset < other.offset + other.bytes;
    });
  }

  std::vector<Slice> read_;
  std::vector<Slice> written_;
};

std::vector<VkBufferCopy> rows_of(const Command& c, std::uint64_t host_base) {
  std::vector<VkBufferCopy> regions;
  for (std::uint64_t r = 0; r < c.row_count; ++r) {
    const std::uint64_t host = host_base + c.host_offset + r * c.row_bytes;
    const std::uint64_t device = c.slices[0].offset + r * c.row_stride_bytes;
    const bool is_in = c.kind == Command::copy_in;
    regions.push_back({.srcOffset = is_in ? host : device,
                       .dstOffset = is_in ? device : host,
                       .size = c.row_bytes});
  }
  return regions;
}

}  // namespace

Recording::Recording(Device& device, const Pipelines& pipelines, Arena& calls, Arena& results,
                     std::span<const Command> commands, std::uint64_t call_bytes,
                     std::uint64_t result_bytes, Timing timing)
    : device_(device),
      commands_(commands.begin(), commands.end()),
      call_bytes_(call_bytes),
      result_bytes_(result_bytes),
      timing_(timing),
      call_(calls.allocate(call_bytes)) {
  if (result_bytes > 0) results_ = results.allocate(result_bytes);
  const VkCommandBufferAllocateInfo allocate{
      .sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_ALLOCATE_INFO,
      .commandPool = device.command_pool(),
      .level = VK_COMMAND_BUFFER_LEVEL_PRIMARY,
      .commandBufferCount = 1};
  check(device.functions().AllocateCommandBuffers(device.handle(), &allocate, &buffer_),
        "allocate a command buffer");
  try {
    record(pipelines);
  } catch (...) {
    device.functions().FreeCommandBuffers(device.handle(), device.command_pool(), 1, &buffer_);
    throw;
  }
}

Recording::~Recording() {
  // After a device loss, runs may not have been waited for.
  if (last_run_ > device_.done()) device_.wait_idle();
  device_.functions().FreeCommandBuffers(device_.handle(), device_.command_pool(), 1, &buffer_);
}

std::vector<VkDescriptorSet> Recording::make_sets(const Pipelines& pipelines) {
  const auto count = static_cast<std::uint32_t>(
      std::count_if(commands_.begin(), commands_.end(),
                    [](const Command& c) { return c.kind == Command::dispatch; }));
  if (count == 0) return {};
  const Functions& f = device_.functions();
  const VkDescriptorPoolSize size{.type = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                                  .descriptorCount = count * (1 + shaders::kBindingsMax)};
  const VkDescriptorPoolCreateInfo info{.sType = VK_STRUCTURE_TYPE_DESCRIPTOR_POOL_CREATE_INFO,
                                        .maxSets = count,
                                        .poolSizeCount = 1,
                                        .pPoolSizes = &size};
  sets_ = {f, device_.handle(), &Functions::CreateDescriptorPool, info, "create a descriptor pool"};
  const std::vector<VkDescriptorSetLayout> layouts(count, pipelines.set_layout());
  const VkDescriptorSetAllocateInfo allocate{
      .sType = VK_STRUCTURE_TYPE_DESCRIPTOR_SET_ALLOCATE_INFO,
      .descriptorPool = sets_.get(),
      .descriptorSetCount = count,
      .pSetLayouts = layouts.data()};
  std::vector<VkDescriptorSet> sets(count);
  check(f.AllocateDescriptorSets(device_.handle(), &allocate, sets.data()), "allocate descriptors");

  std::vector<VkDescriptorBufferInfo> buffers;
  std::vector<VkWriteDescriptorSet> writes;
  buffers.reserve(std::size_t{count} * (1 + shaders::kBindingsMax));
  const auto bind = [&](VkDescriptorSet set, std::uint32_t binding,
                        const VkDescriptorBufferInfo& buffer) {
    buffers.push_back(buffer);
    writes.push_back({.sType = VK_STRUCTURE_TYPE_WRITE_DESCRIPTOR_SET,
                      .dstSet = set,
                      .dstBinding = binding,
                      .descriptorCount = 1,
                      .descriptorType = VK_DESCRIPTOR_TYPE_STORAGE_BUFFER,
                      .pBufferInfo = &buffers.back()});
  };
  auto set = sets.begin();
  for (const Command& command : commands_) {
    if (command.kind != Command::dispatch) continue;
    bind(*set, 0,
         {.buffer = call_.block()->buffer(), .offset = call_.offset(), .range = call_.bytes()});
    for (std::uint32_t i = 0; i < command.slices.size(); ++i) {
      const Slice& s = command.slices[i];
      if (s.block == nullptr) continue;
      bind(*set, i + 1, {.buffer = s.block->buffer(), .offset = s.offset, .range = s.bytes});
    }
    ++set;
  }
  f.UpdateDescriptorSets(device_.handle(), static_cast<std::uint32_t>(writes.size()), writes.data(),
                         0, nullptr);
  return sets;
}

void Recording::record(const Pipelines& pipelines) {
  const Functions& f = device_.functions();
  const std::vector<VkDescriptorSet> sets = make_sets(pipelines);
  if (timing_ != Timing::none) {
    stamp_count_ = timing_ == Timing::whole ? 2 : static_cast<std::uint32_t>(2 * commands_.size());
    const VkQueryPoolCreateInfo info{.sType = VK_STRUCTURE_TYPE_QUERY_POOL_CREATE_INFO,
                                     .queryType = VK_QUERY_TYPE_TIMESTAMP,
                                     .queryCount = stamp_count_};
    stamps_ = {f, device_.handle(), &Functions::CreateQueryPool, info, "create timestamp queries"};
  }
  const VkCommandBufferBeginInfo begin{.sType = VK_STRUCTURE_TYPE_COMMAND_BUFFER_BEGIN_INFO};
  check(f.BeginCommandBuffer(buffer_, &begin), "record commands");
  if (stamp_count_ > 0) f.CmdResetQueryPool(buffer_, stamps_.get(), 0, stamp_count_);
  full_barrier(f, buffer_);  // earlier command buffers
  if (timing_ == Timing::whole) stamp(0);
  Hazards hazards;
  auto set = sets.begin();
  for (std::uint32_t i = 0; i < commands_.size(); ++i) {
    const Command& command = commands_[i];
    const bool is_alone = timing_ == Timing::each;
    if (is_alone || hazards.conflicts(command)) {
      full_barrier(f, buffer_);
      hazards.clear();
    }
    if (is_alone) stamp(2 * i);
    record_command(pipelines, command, command.kind == Command::dispatch ? *set++ : VK_NULL_HANDLE);
    if (is_alone) stamp(2 * i + 1);
    hazards.add(command);
  }
  if (timing_ == Timing::whole) stamp(1);
  full_barrier(f, buffer_);  // for the host's reads
  check(f.EndCommandBuffer(buffer_), "record commands");
}

void Recording::record_command(const Pipelines& pipelines, const Command& command,
                               VkDescriptorSet set) {
  const Functions& f = device_.functions();
  const Slice& slice = command.slices[0];
  switch (command.kind) {
    case Command::dispatch:
      f.CmdBindPipeline(buffer_, VK_PIPELINE_BIND_POINT_COMPUTE, command.pipeline->pipeline.get());
      f.CmdBindDescriptorSets(buffer_, VK_PIPELINE_BIND_POINT_COMPUTE, pipelines.layout(), 0, 1,
                              &set, 0, nullptr);
      f.CmdPushConstants(buffer_, pipelines.layout(), VK_SHADER_STAGE_COMPUTE_BIT, 0,
                         sizeof command.push, command.push.data());
      f.CmdDispatch(buffer_, command.groups_x, command.groups_y, 1);
      return;
    case Command::fill:
      f.CmdFillBuffer(buffer_, slice.block->buffer(), slice.offset, slice.bytes, 0);
      return;
    case Command::copy_in: {
      const auto regions = rows_of(command, call_.offset());
      f.CmdCopyBuffer(buffer_, call_.block()->buffer(), slice.block->buffer(),
                      static_cast<std::uint32_t>(regions.size()), regions.data());
      return;
    }
    case Command::copy_out: {
      const auto regions = rows_of(command, results_.offset());
      f.CmdCopyBuffer(buffer_, slice.block->buffer(), results_.block()->buffer(),
                      static_cast<std::uint32_t>(regions.size()), regions.data());
      return;
    }
  }
}

void Recording::stamp(std::uint32_t index) {
  // Taken after all earlier commands have run.
  device_.functions().CmdWriteTimestamp(buffer_, VK_PIPELINE_STAGE_ALL_COMMANDS_BIT, stamps_.get(),
                                        index);
}

std::uint64_t Recording::run(std::span<const std::byte> call) {
  EDGEDRAFT_CHECK(call.size() == call_bytes_);
  device_.wait(last_run_);  // the call buffer is in use until then
  if (!call.empty()) std::memcpy(call_.mapped(), call.data(), call.size());
  last_run_ = device_.submit(buffer_);
  return last_run_;
}

bool Recording::is_of(std::span<const Command> commands, std::uint64_t call_bytes,
                      std::uint64_t result_bytes, Timing timing) const {
  return call_bytes == call_bytes_ && result_bytes == result_bytes_ && timing == timing_ &&
         commands.size() == commands_.size() &&
         std::memcmp(commands.data(), commands_.data(), commands.size_bytes()) == 0;
}

bool uses(std::span<const Command> commands, const Block& block) {
  return std::any_of(commands.begin(), commands.end(), [&](const Command& c) {
    return std::any_of(c.slices.begin(), c.slices.end(),
                       [&](const Slice& s) { return s.block == &block; });
  });
}

std::span<const std::byte> Recording::results() const {
  if (result_bytes_ == 0) return {};
  return {results_.mapped(), static_cast<std::size_t>(result_bytes_)};
}

std::vector<double> Recording::seconds() const {
  std::vector<std::uint64_t> stamps(stamp_count_);
  std::vector<double> seconds;
  if (stamps.empty()) return seconds;
  device_.wait(last_run_);  // has a timeout; waiting for query results has none
  check(device_.functions().GetQueryPoolResults(device_.handle(), stamps_.get(), 0, stamp_count_,
                                                stamps.size() * sizeof(std::uint64_t),
                                                stamps.data(), sizeof(std::uint64_t),
                                                VK_QUERY_RESULT_64_BIT | VK_QUERY_RESULT_WAIT_BIT),
        "read its timestamps");
  for (std::size_t i = 0; i < stamps.size(); i += 2) {
    seconds.push_back(static_cast<double>(stamps[i + 1] - stamps[i]) * device_.timestamp_seconds());
  }
  return seconds;
}

}  // namespace edgedraft::client::vulkan
