#include "server/metrics/health.h"

#include <algorithm>

namespace edgedraft::server {
namespace {

// Limits for a step; a longer one counts as hung. A pass reads all weights even for few rows. So
// 256 rows take at most 256 times as long, and a few times more over a long context. On a GPU that
// is seconds, and the minimum applies; on a slow CPU, which does not hang, it may be an hour.
constexpr Duration kStepLeast = std::chrono::seconds(60);
constexpr int kStepPasses = 16 * 256;

}  // namespace

void Health::device_failed(const std::string& reason, bool lost) {
  const Device now = lost ? Device::lost : Device::failed;
  {
    const std::lock_guard lock(mutex_);
    const bool known = device_.load(std::memory_order_relaxed) == now && reason_ == reason;
    device_.store(now, std::memory_order_relaxed);
    reason_ = reason;
    hangs_ = false;
    if (known) return;
  }
  if (report_) report_(now, reason);
}

void Health::recover() {
  {
    const std::lock_guard lock(mutex_);
    device_.store(Device::works, std::memory_order_relaxed);
    reason_.clear();
    hangs_ = false;
  }
  if (report_) report_(Device::works, {});
}

void Health::pass_took(Duration time) {
  const std::lock_guard lock(mutex_);
  shortest_pass_ = std::min(time, shortest_pass_.value_or(time));
}

void Health::step_begins(Instant now) {
  const std::lock_guard lock(mutex_);
  step_began_ = now;
}

void Health::step_ended() {
  {
    const std::lock_guard lock(mutex_);
    step_began_.reset();
    if (!hangs_) return;
  }
  recover();
}

void Health::look_at_step(Instant now) {
  std::string reason;
  {
    const std::lock_guard lock(mutex_);
    // The first pass may read the model from a slow disk, without a reference time.
    if (hangs_ || !step_began_ || !shortest_pass_) return;
    const Duration taken = now - *step_began_;
    if (taken < std::max(kStepLeast, kStepPasses * *shortest_pass_)) return;
    hangs_ = true;
    device_.store(Device::lost, std::memory_order_relaxed);
    reason_ = reason =
        "a step that began " +
        std::to_string(std::chrono::duration_cast<std::chrono::seconds>(taken).count()) +
        " s ago is still running";
  }
  if (report_) report_(Device::lost, reason);
}

Health::View Health::view() const {
  const std::lock_guard lock(mutex_);
  return {.phase = phase_.load(std::memory_order_relaxed),
          .device = device_.load(std::memory_order_relaxed),
          .reason = reason_};
}

}  // namespace edgedraft::server
