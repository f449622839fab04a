#include "shared/runtime/thread_pool.h"

#include <algorithm>
#include <string>
#include <system_error>

#include "shared/base/fast_cores.h"

namespace edgedraft {
namespace {

// About sixty microseconds, slightly above the cost of waking a thread. Longer than the pause
// between two loops of a pass or one thread's lead over another. Far shorter than a scheduler
// slice, so that a team on shared cores does not burn them.
constexpr int kSpins = 1200;

constexpr std::uint64_t kLowHalf = 0xffff'ffff;

void relax() {
#if defined(__x86_64__)
  __builtin_ia32_pause();
#elif defined(__aarch64__)
  asm volatile("yield");
#endif
}

// Waits until `number` differs from `old`; returns the new value.
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

ThreadPool::ThreadPool(std::uint32_t threads) : ranges_(threads != 0 ? threads : fast_cores()) {
  workers_.reserve(ranges_.size() - 1);
  try {
    for (std::size_t i = 1; i < ranges_.size(); ++i) workers_.emplace_back([this, i] { work(i); });
  } catch (const std::system_error& error) {
    stop();
    throw std::system_error(error.code(),
                            "starting " + std::to_string(ranges_.size()) + " threads");
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

void ThreadPool::Range::set(std::uint64_t begin, std::uint64_t end) {
  steps.store(end << 32 | begin, std::memory_order_release);
}

bool ThreadPool::Range::take_first(std::size_t& step) {
  for (std::uint64_t left = steps.load(); step = left & kLowHalf, step < left >> 32;) {
    if (steps.compare_exchange_weak(left, left + 1)) return true;
  }
  return false;
}

bool ThreadPool::Range::take_last(std::size_t& step) {
  for (std::uint64_t left = steps.load();
       step = (left >> 32) - 1, (left & kLowHalf) < left >> 32;) {
    if (steps.compare_exchange_weak(left, left - kLowHalf - 1)) return true;
  }
  return false;
}

void ThreadPool::run_job(const Job& job) {
  const std::uint64_t steps = (job.count + job.step - 1) / job.step;
  job_ = job;
  unfinished_.store(static_cast<std::uint32_t>(steps));
  for (std::size_t i = 0; i < ranges_.size(); ++i) {
    ranges_[i].set(steps * i / ranges_.size(), steps * (i + 1) / ranges_.size());
  }
  round_.fetch_add(1);
  round_.notify_all();
  take_steps(0);
  for (std::uint32_t left = unfinished_.load(); left != 0;) left = wait_while(unfinished_, left);
}

void ThreadPool::work(std::size_t thread) {
  // Rounds start at 0, not at the current value: a job may precede this thread's first look.
  for (std::uint32_t seen = 0;;) {
    seen = wait_while(round_, seen);
    if (stopping_) return;
    take_steps(thread);
  }
}

// A thread with a step may read job_, which stays until that step is finished. A late thread may
// take steps of the next job.
void ThreadPool::take_steps(std::size_t thread) {
  std::uint32_t finished = 0;
  for (std::size_t step; take_step(thread, step); ++finished) run_step(step, thread);
  if (finished != 0 && unfinished_.fetch_sub(finished) == finished) unfinished_.notify_one();
}

bool ThreadPool::take_step(std::size_t thread, std::size_t& step) {
  if (ranges_[thread].take_first(step)) return true;
  for (std::size_t i = 1; i < ranges_.size(); ++i) {
    if (ranges_[(thread + i) % ranges_.size()].take_last(step)) return true;
  }
  return false;
}

void ThreadPool::run_step(std::size_t step, std::size_t thread) const {
  const std::size_t begin = step * job_.step;
  job_.call(job_.task, begin, std::min(begin + job_.step, job_.count), thread);
}

}  // namespace edgedraft
