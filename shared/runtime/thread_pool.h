#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace edgedraft {

// A fixed team that works on one loop at a time; the calling thread is one of them.
//
// The loop is cut into shares, and whoever is awake takes the next one: where the machine is busy
// and a thread does not get its turn, the others do its work instead of waiting for it. Idle
// threads look for work for some tens of microseconds, then sleep.
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

  // Calls task(begin, end, thread) for ranges that cover 0..count-1 and begin at multiples of
  // `grain`, cut into shares_a_thread times thread_count() shares; thread, 0..thread_count()-1, is
  // the one that calls. Several shares a thread even out what threads get done, one costs the
  // least. Returns when all are done. The task must not throw.
  template <class Task>
  void run(std::size_t count, std::size_t grain, std::uint32_t shares_a_thread, const Task& task) {
    run_job({.call = [](const void* t, std::size_t begin, std::size_t end,
                        std::size_t thread) { (*static_cast<const Task*>(t))(begin, end, thread); },
             .task = &task,
             .count = count,
             .grain = grain,
             .share_count = shares_a_thread * static_cast<std::uint32_t>(thread_count())});
  }
  template <class Task>
  void run(std::size_t count, std::size_t grain, const Task& task) {
    run(count, grain, 1, task);
  }

 private:
  struct Job {
    void (*call)(const void* task, std::size_t begin, std::size_t end, std::size_t thread);
    const void* task;
    std::size_t count;
    std::size_t grain;
    std::uint32_t share_count;
  };

  void run_job(const Job& job);
  void work(std::size_t thread);
  void take_shares(std::size_t thread);
  void run_share(std::uint32_t share, std::size_t thread) const;
  void stop();

  Job job_{};
  std::atomic<bool> stopping_ = false;
  std::atomic<std::uint32_t> round_ = 0;  // a job's number: its change says that job_ is new
  // Shares that nobody has taken. While there is none, job_ may change.
  std::atomic<std::uint32_t> shares_left_ = 0;
  std::atomic<std::uint32_t> unfinished_ = 0;  // shares of the job
  std::vector<std::thread> workers_;
};

}  // namespace edgedraft
