#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "client/vulkan/recording.h"
#include "shared/runtime/memory_meter.h"

namespace edgedraft::client::vulkan {

// Batches commands and their arguments until results are needed. A list of commands that has run
// before, such as a level of a draft tree, runs again without being recorded.
class Stream {
 public:
  // Bounds call buffers and results of recordings if memory is limited: the least recently run one
  // is then evicted. Without a limit they may take more.
  static constexpr std::uint64_t kHostBytes = std::uint64_t{8} << 20;

  Stream(Device& device, const Pipelines& pipelines, const std::shared_ptr<MemoryMeter>& meter);
  ~Stream();

  // Prepares for a command with `call_bytes` of arguments and `result_bytes` of results. Runs the
  // batch if it would become too long or has much work already. Call before a command's put() and
  // add_result().
  void reserve(std::uint64_t call_bytes, std::uint64_t result_bytes);
  // Appends words or floats to the call buffer. Returns the index of the first.
  std::uint32_t put(std::span<const std::uint32_t> words);
  std::uint32_t put(std::span<const float> numbers);
  std::uint32_t put(std::uint32_t word) { return put(std::span(&word, 1)); }
  void add(const Command& command) { commands_.push_back(command); }
  // Multiplications of the previous command, which determine its time.
  void count_multiplications(std::uint64_t count) { multiplications_ += count; }
  // Reserves `bytes` of results. Returns their offset in the span that finish() returns.
  std::uint64_t add_result(std::uint64_t bytes);

  // Runs the batch without waiting. Throws DeviceError if the device refuses it, also from all
  // later calls, because later work depends on it.
  void flush();
  // Runs the batch and waits. The results are valid until the next call.
  std::span<const std::byte> finish();
  // Drops recordings that use the block, after waiting for it.
  void forget(const Block& block) noexcept;

  // Takes timestamps from now on.
  void set_timing(Timing timing) { timing_ = timing; }
  // Times of the last list that was waited for; one entry with Timing::whole.
  std::vector<MeasuredBackend::OperationTime> take_times();
  const MeasuredBackend::Counts& counts() const { return counts_; }

 private:
  Recording& recording();
  void drop_oldest();
  void drop_gathered() noexcept;

  Device& device_;
  const Pipelines& pipelines_;
  Arena calls_;    // written by the host, read by the device
  Arena results_;  // written by the device, read by the host
  std::vector<Command> commands_;
  std::vector<std::uint32_t> call_;
  std::uint64_t result_bytes_ = 0;
  std::uint64_t multiplications_ = 0;  // multiplications in the batch
  Timing timing_ = Timing::none;
  std::list<Recording> recordings_;  // most recently used first
  Recording* last_ = nullptr;
  bool broken_ = false;  // some of a batch has not run
  MeasuredBackend::Counts counts_;
};

}  // namespace edgedraft::client::vulkan
