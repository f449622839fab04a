#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace edgedraft {

// A fixed team that runs one loop at a time; the calling thread takes part.
//
// A loop is cut into steps. Each thread starts with an equal, contiguous share, so that its reads
// are sequential. A thread that has finished takes steps from the end of another's share. So all
// finish together, even if a busy machine suspends a thread. Idle threads spin for some tens of
// microseconds, then sleep.
//
// Threads   one caller at a time
class ThreadPool {
 public:
  // 0: one per fast core. Throws std::system_error if a thread cannot be started.
  explicit ThreadPool(std::uint32_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  std::size_t thread_count() const { return ranges_.size(); }

  // Step size that gives each thread one step, a multiple of `grain`: the cheapest division.
  std::size_t one_step_a_thread(std::size_t count, std::size_t grain) const {
    const std::size_t a_thread = grain * thread_count();
    return (count + a_thread - 1) / a_thread * grain;
  }

  // Calls task(begin, end, thread) for ranges that cover 0..count-1, each of `step` items except a
  // shorter last one. `thread`, 0..thread_count()-1, is the calling thread. Returns when all are
  // done. The task must not throw. Requires step > 0, and fewer than 2^32 steps
  template <class Task>
  void run(std::size_t count, std::size_t step, const Task& task) {
    run_job({.call = [](const void* t, std::size_t begin, std::size_t end,
                        std::size_t thread) { (*static_cast<const Task*>(t))(begin, end, thread); },
             .task = &task,
             .count = count,
             .step = step});
  }

 private:
  struct Job {
    void (*call)(const void* task, std::size_t begin, std::size_t end, std::size_t thread);
    const void* task;
    std::size_t count;
    std::size_t step;
  };

  // Untaken steps, in their own cache line.
  struct alignas(64) Range {
    // First step in the low half, end in the high half.
    std::atomic<std::uint64_t> steps = 0;

    void set(std::uint64_t begin, std::uint64_t end);
    // False if none is left.
    bool take_first(std::size_t& step);
    bool take_last(std::size_t& step);
  };

  void run_job(const Job& job);
  void work(std::size_t thread);
  void take_steps(std::size_t thread);
  bool take_step(std::size_t thread, std::size_t& step);
  void run_step(std::size_t step, std::size_t thread) const;
  void stop();

  Job job_{};
  std::atomic<bool> stopping_ = false;
  std::atomic<std::uint32_t> round_ = 0;       // number of the job; a change announces a new job_
  std::atomic<std::uint32_t> unfinished_ = 0;  // steps of the job; 0: job_ may be replaced
  std::vector<Range> ranges_;                  // one per thread
  std::vector<std::thread> workers_;           // all threads but the caller
};

}  // namespace edgedraft
