#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace edgedraft {

// A fixed team that shares one loop at a time; the calling thread is one of them.
//
// The loop is cut into one share a thread, and whoever is awake takes the next share: where the
// machine is busy and a thread does not get its turn, the others do its work instead of waiting for
// it. Idle threads look for work for a few microseconds, then sleep.
//
// Threads   one caller at a time
class ThreadPool {
 public:
  // 0: one a core. Throws std::system_error when a thread cannot be started.
  explicit ThreadPool(std::uint32_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  std::size_t thread_count() const { return workers_.size() + 1; }

  // Calls task(begin, end, share) for shares 0..thread_count()-1, at most once each, whose ranges
  // cover 0..count-1 and begin at multiples of `grain`. Returns when all are done. The task must
  // not throw.
  template <class Task>
  void run(std::size_t count, std::size_t grain, const Task& task) {
    run_job({.call = [](const void* t, std::size_t begin, std::size_t end,
                        std::size_t share) { (*static_cast<const Task*>(t))(begin, end, share); },
             .task = &task,
             .count = count,
             .grain = grain});
  }

 private:
  struct Job {
    void (*call)(const void* task, std::size_t begin, std::size_t end, std::size_t share);
    const void* task;
    std::size_t count;
    std::size_t grain;
  };

  void run_job(const Job& job);
  void work();
  void take_shares();
  void run_share(std::size_t share) const;
  void stop();

  Job job_{};
  std::atomic<bool> stopping_ = false;
  std::atomic<std::uint32_t> round_ = 0;  // a job's number: its change says that job_ is new
  // The next share to take. Beyond the last where there is none: job_ may then change.
  std::atomic<std::uint32_t> next_share_ = ~0u;
  std::atomic<std::uint32_t> unfinished_ = 0;  // shares of the job
  std::vector<std::thread> workers_;
};

}  // namespace edgedraft
