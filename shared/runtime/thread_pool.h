#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace edgedraft {

// A fixed team that shares one loop at a time; the calling thread is one of them.
//
// Ranges are equal and in order of the threads, so the same thread meets the same weights in every
// pass. Idle threads look for work for a few microseconds, then sleep.
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

  // Calls task(begin, end, thread) at most once on each thread, for ranges that cover 0..count-1
  // and begin at multiples of `grain`. Returns when all are done. The task must not throw.
  template <class Task>
  void run(std::size_t count, std::size_t grain, const Task& task) {
    run_job({.call = [](const void* t, std::size_t begin, std::size_t end,
                        std::size_t thread) { (*static_cast<const Task*>(t))(begin, end, thread); },
             .task = &task,
             .count = count,
             .grain = grain});
  }

 private:
  struct Job {
    void (*call)(const void* task, std::size_t begin, std::size_t end, std::size_t thread);
    const void* task;
    std::size_t count;
    std::size_t grain;
  };

  void run_job(const Job& job);
  void work(std::size_t thread);
  void run_share(std::size_t thread) const;
  void stop();

  Job job_{};
  bool stopping_ = false;
  std::atomic<std::uint32_t> round_ = 0;    // a job's number: its change says that job_ is new
  std::atomic<std::uint32_t> running_ = 0;  // workers that have not finished the job
  std::vector<std::thread> workers_;
};

}  // namespace edgedraft
