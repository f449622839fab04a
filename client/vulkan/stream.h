#pragma once

#include <cstdint>
#include <list>
#include <memory>
#include <span>
#include <vector>

#include "client/vulkan/recording.h"
#include "shared/runtime/memory_meter.h"

namespace edgedraft::vulkan {

// Gathers commands and what they are told, until somebody waits for results. A list of commands
// that has run before, for example a level of a draft tree, runs again without being recorded.
class Stream {
 public:
  // What the call buffers and results of its recordings take if memory is limited: the recording
  // whose last run is longest ago makes room for the next. Without a limit they may take more.
  static constexpr std::uint64_t kHostBytes = std::uint64_t{8} << 20;

  Stream(Device& device, const Pipelines& pipelines, const std::shared_ptr<MemoryMeter>& meter);
  ~Stream();

  // Makes room for a command that is told `call_bytes` and leaves `result_bytes`: runs what has
  // been gathered if the list would become too long, or is much work already. Call before put() and
  // add_result() of a command.
  void reserve(std::uint64_t call_bytes, std::uint64_t result_bytes);
  // Appends words, or numbers, to the call buffer. Returns the index of the first.
  std::uint32_t put(std::span<const std::uint32_t> words);
  std::uint32_t put(std::span<const float> numbers);
  std::uint32_t put(std::uint32_t word) { return put(std::span(&word, 1)); }
  void add(const Command& command) { commands_.push_back(command); }
  // The command before does so many, which is what it takes its time for.
  void count_multiplications(std::uint64_t count) { multiplications_ += count; }
  // Has `bytes` of results. Returns their offset in the span that finish() returns.
  std::uint64_t add_result(std::uint64_t bytes);

  // Runs what has been gathered without waiting for it. Throws DeviceError, then and ever after, if
  // the device does not take it: others wait for what was gathered for them.
  void flush();
  // Runs it and waits. The results are valid until the next call.
  std::span<const std::byte> finish();
  // Forgets what uses the block, having waited for it.
  void forget(const Block& block) noexcept;

  // Takes timestamps from now on.
  void set_timing(Timing timing) { timing_ = timing; }
  // Times of the last list that was waited for; with Timing::whole one entry.
  std::vector<MeasuredBackend::OperationTime> take_times();
  const MeasuredBackend::Counts& counts() const { return counts_; }

 private:
  Recording& recording();
  void drop_oldest();
  void drop_gathered() noexcept;

  Device& device_;
  const Pipelines& pipelines_;
  Arena calls_;    // call buffers, which the host writes and the device reads
  Arena results_;  // the other way round
  std::vector<Command> commands_;
  std::vector<std::uint32_t> call_;
  std::uint64_t result_bytes_ = 0;
  std::uint64_t multiplications_ = 0;  // of the commands
  Timing timing_ = Timing::none;
  std::list<Recording> recordings_;  // the most recently used first
  Recording* last_ = nullptr;
  bool broken_ = false;  // something that was gathered has not run
  MeasuredBackend::Counts counts_;
};

}  // namespace edgedraft::vulkan
