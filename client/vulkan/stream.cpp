#include "client/vulkan/stream.h"

#include <algorithm>
#include <cstring>

namespace edgedraft::client::vulkan {
namespace {

// Bounds lists and call buffers; beyond either, the list runs.
constexpr std::size_t kCommandsMax = 2048;
constexpr std::uint64_t kCallBytesMax = std::uint64_t{4} << 20;
constexpr std::uint64_t kResultBytesMax = std::uint64_t{4} << 20;
// Multiplications after which a list takes no more commands. A weak GPU, of 60 billion operations
// per second, takes about a second for them. A much longer list would look like a hang
// (device.cpp), also to drivers with a watchdog.
constexpr std::uint64_t kMultiplicationsMax = std::uint64_t{1} << 35;
// Bounds recordings. A drafter has a list per number of rows, in its levels and for accepted
// tokens. Each holds its commands' arguments, up to kCallBytesMax.
constexpr std::size_t kRecordingsMax = 64;
constexpr std::uint64_t kHostBlockBytes = Stream::kHostBytes / 2;
constexpr VkMemoryPropertyFlags kSeenByHost =
    VK_MEMORY_PROPERTY_HOST_VISIBLE_BIT | VK_MEMORY_PROPERTY_HOST_COHERENT_BIT;

}  // namespace

Stream::Stream(Device& device, const Pipelines& pipelines,
               const std::shared_ptr<MemoryMeter>& meter)
    : device_(device),
      pipelines_(pipelines),
      // Every invocation reads the call buffer, which is fastest in device memory. Most devices
      // make some of it visible to the host.
      calls_(device, meter,
             {.wanted = kSeenByHost,
              .preferred = VK_MEMORY_PROPERTY_DEVICE_LOCAL_BIT,
              .block_bytes = kHostBlockBytes,
              .bytes_max = meter->is_limited() ? kHostBlockBytes : 0}),
      results_(device, meter,
               {.wanted = kSeenByHost,
                .preferred = VK_MEMORY_PROPERTY_HOST_CACHED_BIT,
                .block_bytes = kHostBlockBytes,
                .bytes_max = meter->is_limited() ? kHostBlockBytes : 0}) {}

Stream::~Stream() {
  device_.wait_idle();
}

void Stream::reserve(std::uint64_t call_bytes, std::uint64_t result_bytes) {
  // A timed list is not split, because the time is that of the last list.
  const bool is_long = multiplications_ >= kMultiplicationsMax && timing_ == Timing::none;
  if (is_long || commands_.size() + 1 > kCommandsMax ||
      call_.size() * sizeof(std::uint32_t) + call_bytes > kCallBytesMax ||
      result_bytes_ + result_bytes > kResultBytesMax) {
    flush();
  }
}

std::uint32_t Stream::put(std::span<const std::uint32_t> words) {
  const auto first = static_cast<std::uint32_t>(call_.size());
  call_.insert(call_.end(), words.begin(), words.end());
  return first;
}

std::uint32_t Stream::put(std::span<const float> numbers) {
  const std::size_t first = call_.size();
  call_.resize(first + numbers.size());
  std::memcpy(&call_[first], numbers.data(), numbers.size_bytes());
  return static_cast<std::uint32_t>(first);
}

std::uint64_t Stream::add_result(std::uint64_t bytes) {
  const std::uint64_t offset = result_bytes_;
  result_bytes_ += (bytes + 3) / 4 * 4;
  return offset;
}

Recording& Stream::recording() {
  const std::uint64_t call_bytes = call_.size() * sizeof(std::uint32_t);
  const auto found = std::find_if(recordings_.begin(), recordings_.end(), [&](const Recording& r) {
    return r.is_of(commands_, call_bytes, result_bytes_, timing_);
  });
  if (found != recordings_.end()) {
    recordings_.splice(recordings_.begin(), recordings_, found);
    return recordings_.front();
  }
  if (recordings_.size() >= kRecordingsMax) drop_oldest();
  ++counts_.recordings;
  for (;;) {
    try {
      return recordings_.emplace_front(device_, pipelines_, calls_, results_, commands_, call_bytes,
                                       result_bytes_, timing_);
    } catch (const DeviceError&) {
      if (recordings_.empty()) throw;
      drop_oldest();
    }
  }
}

void Stream::drop_oldest() {
  device_.wait(recordings_.back().last_run());
  if (last_ == &recordings_.back()) last_ = nullptr;
  recordings_.pop_back();
}

void Stream::drop_gathered() noexcept {
  commands_.clear();
  call_.clear();
  result_bytes_ = 0;
  multiplications_ = 0;
}

void Stream::flush() {
  if (broken_) throw DeviceError("the device rejected earlier work, which is lost");
  if (commands_.empty()) return;
  try {
    Recording& recorded = recording();
    recorded.run(std::as_bytes(std::span(call_)));
    last_ = &recorded;
    ++counts_.runs;
  } catch (...) {
    broken_ = true;
    drop_gathered();
    throw;
  }
  drop_gathered();
}

std::span<const std::byte> Stream::finish() {
  flush();
  if (last_ == nullptr) return {};
  device_.wait(last_->last_run());
  return last_->results();
}

void Stream::forget(const Block& block) noexcept {
  try {
    if (uses(commands_, block)) flush();
  } catch (...) {
    // The next waiting call throws.
  }
  device_.wait_idle();
  recordings_.remove_if([&](const Recording& r) {
    if (!uses(r.commands(), block)) return false;
    if (last_ == &r) last_ = nullptr;
    return true;
  });
}

std::vector<MeasuredBackend::OperationTime> Stream::take_times() {
  std::vector<MeasuredBackend::OperationTime> all;
  if (last_ == nullptr) return all;
  const std::vector<double> seconds = last_->seconds();
  const auto commands = last_->commands();
  if (timing_ == Timing::whole) {
    for (const double s : seconds) all.push_back({.name = "all", .seconds = s});
    return all;
  }
  for (std::size_t i = 0; i < seconds.size(); ++i) {
    if (commands[i].kind == Command::dispatch) {
      all.push_back({.name = name(commands[i].pipeline->shader), .seconds = seconds[i]});
    }
  }
  return all;
}

}  // namespace edgedraft::client::vulkan
