#include "shared/runtime/thread_pool.h"

#include <algorithm>

namespace edgedraft {
namespace {

// About ten microseconds: longer than the gap between two operations of a pass, far shorter than a
// scheduler's slice, so a team that shares its cores with others does not burn them.
constexpr int kSpins = 200;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Returns the new value once `number` is no longer `old`.
std::uint32_t wait_while(const std::atomic<std::uint32_t>& number, std::uint32_t old) {
  for (int spin = 0; spin < kSpins; ++spin) {
    const std::uint32_t value = number.load(std::memory_order_acquire);
    if (value != old) return value;
    relax();
  }
  number.wait(old, std::memory_order_acquire);
  return number.load(std::memory_order_acquire);
}

}  // namespace

ThreadPool::ThreadPool(std::uint32_t threads) {
  const std::uint32_t count =
      threads != 0 ? threads : std::max(1u, std::thread::hardware_concurrency());
  workers_.reserve(count - 1);
  try {
    for (std::uint32_t i = 1; i < count; ++i) workers_.emplace_back([this] { work(); });
  } catch (...) {
    stop();
    throw;
  }
}

ThreadPool::~ThreadPool() {
  stop();
}

void ThreadPool::stop() {
  stopping_ = true;
  round_.fetch_add(1);
  round_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::run_job(const Job& job) {
  job_ = job;
  unfinished_.store(static_cast<std::uint32_t>(thread_count()));
  next_share_.store(0, std::memory_order_release);
  round_.fetch_add(1);
  round_.notify_all();
  take_shares();
  for (std::uint32_t left = unfinished_.load(); left != 0;) left = wait_while(unfinished_, left);
}

void ThreadPool::work() {
  // A job may have been given before this thread's first look: rounds start at 0, not at what it
  // sees.
  for (std::uint32_t seen = 0;;) {
    seen = wait_while(round_, seen);
    if (stopping_) return;
    take_shares();
  }
}

// Who has taken a share may look at job_: it stays until the share is finished.
void ThreadPool::take_shares() {
  const auto count = static_cast<std::uint32_t>(thread_count());
  for (std::uint32_t share = next_share_.load(); share < count;) {
    if (!next_share_.compare_exchange_weak(share, share + 1)) continue;
    run_share(share);
    if (unfinished_.fetch_sub(1) == 1) unfinished_.notify_one();
    share = next_share_.load();
  }
}

void ThreadPool::run_share(std::size_t share) const {
  const std::size_t grains = (job_.count + job_.grain - 1) / job_.grain;
  const std::size_t begin = grains * share / thread_count() * job_.grain;
  const std::size_t end = std::min(grains * (share + 1) / thread_count() * job_.grain, job_.count);
  if (begin < end) job_.call(job_.task, begin, end, share);
}

}  // namespace edgedraft
