#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <thread>
#include <vector>

namespace edgedraft {

// A fixed team that works on one loop at a time; the calling thread is one of them.
//
// A loop is cut into steps. Each thread begins with a stretch of its own, of as many steps as the
// others', and takes them one after another, so that what it reads lies in a row; a thread that is
// through takes steps from the end of another's stretch. So all are done at about the same time,
// also where the machine is busy and a thread does not get its turn. Idle threads look for work for
// some tens of microseconds, then sleep.
//
// Threads   one caller at a time
class ThreadPool {
 public:
  // 0: one per fast core. Throws std::system_error when a thread cannot be started.
  explicit ThreadPool(std::uint32_t threads);
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  std::size_t thread_count() const { return stretches_.size(); }

  // The step that gives each thread one, a multiple of `grain`: what costs the least to share out.
  std::size_t one_step_a_thread(std::size_t count, std::size_t grain) const {
    const std::size_t a_thread = grain * thread_count();
    return (count + a_thread - 1) / a_thread * grain;
  }

  // Calls task(begin, end, thread) for ranges that cover 0..count-1, each of `step` items but for
  // the last, which may be shorter; thread, 0..thread_count()-1, is the one that calls. Returns
  // when all are done. The task must not throw. Requires step > 0, and fewer than 2^32 steps
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

  // Steps that nobody has taken, in a cache line of its own.
  struct alignas(64) Stretch {
    // The first in the low half, one behind the last in the high one.
    std::atomic<std::uint64_t> steps = 0;

    void set(std::uint64_t begin, std::uint64_t end);
    // False where there is none left.
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
  std::atomic<std::uint32_t> round_ = 0;       // a job's number: its change says that job_ is new
  std::atomic<std::uint32_t> unfinished_ = 0;  // steps of the job; 0: job_ may change
  std::vector<Stretch> stretches_;             // a thread each
  std::vector<std::thread> workers_;           // all threads but the caller
};

}  // namespace edgedraft
