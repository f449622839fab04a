#include "shared/runtime/thread_pool.h"

#include <algorithm>

namespace edgedraft {
namespace {

// About sixty microseconds, a little more than waking a sleeper takes: longer than the work between
// two loops of a pass and than one thread's lead over another, far shorter than a scheduler's
// slice, so a team that shares its cores with others does not burn them.
constexpr int kSpins = 1200;

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
    for (std::uint32_t i = 1; i < count; ++i) workers_.emplace_back([this, i] { work(i); });
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
  unfinished_.store(job.share_count);
  shares_left_.store(job.share_count);
  round_.fetch_add(1);
  round_.notify_all();
  take_shares(0);
  for (std::uint32_t left = unfinished_.load(); left != 0;) left = wait_while(unfinished_, left);
}

void ThreadPool::work(std::size_t thread) {
  // A job may have been given before this thread's first look: rounds start at 0, not at what it
  // sees.
  for (std::uint32_t seen = 0;;) {
    seen = wait_while(round_, seen);
    if (stopping_) return;
    take_shares(thread);
  }
}

// Who has taken a share may look at job_: it stays until the share is finished.
void ThreadPool::take_shares(std::size_t thread) {
  for (std::uint32_t left = shares_left_.load(); left > 0;) {
    if (!shares_left_.compare_exchange_weak(left, left - 1)) continue;
    run_share(job_.share_count - left, thread);
    if (unfinished_.fetch_sub(1) == 1) unfinished_.notify_one();
    left = shares_left_.load();
  }
}

void ThreadPool::run_share(std::uint32_t share, std::size_t thread) const {
  const std::size_t grains = (job_.count + job_.grain - 1) / job_.grain;
  const std::size_t begin = grains * share / job_.share_count * job_.grain;
  const std::size_t end =
      std::min(grains * (share + 1) / job_.share_count * job_.grain, job_.count);
  if (begin < end) job_.call(job_.task, begin, end, thread);
}

}  // namespace edgedraft
