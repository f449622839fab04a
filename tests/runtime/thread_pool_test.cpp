#include "shared/runtime/thread_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <mutex>
#include <thread>
#include <vector>

#include "shared/base/fast_cores.h"

namespace edgedraft {
namespace {

TEST(ThreadPoolTest, VisitsEveryItemOnce) {
  for (const std::uint32_t threads : {1u, 2u, 3u, 8u}) {
    ThreadPool pool(threads);
    EXPECT_EQ(pool.thread_count(), threads);
    for (const std::size_t count : {0, 1, 2, 7, 8, 9, 1000}) {
      for (const std::size_t grain : {1, 4, 16}) {
        std::vector<std::atomic<int>> visits(count);
        pool.run(count, grain, [&](std::size_t begin, std::size_t end, std::size_t) {
          for (std::size_t i = begin; i < end; ++i) ++visits[i];
        });
        EXPECT_TRUE(std::all_of(visits.begin(), visits.end(), [](const auto& v) { return v == 1; }))
            << count << " items, grain " << grain << ", on " << threads << " threads";
      }
    }
  }
}

using Ranges = std::vector<std::pair<std::size_t, std::size_t>>;

// Ranges of a loop, in order.
Ranges ranges_of(ThreadPool& pool, std::size_t count, std::size_t step) {
  std::mutex mutex;
  Ranges ranges;
  pool.run(count, step, [&](std::size_t begin, std::size_t end, std::size_t thread) {
    const std::lock_guard lock(mutex);
    EXPECT_LT(thread, pool.thread_count());
    ranges.emplace_back(begin, end);
  });
  std::sort(ranges.begin(), ranges.end());
  return ranges;
}

TEST(ThreadPoolTest, SplitsWorkIntoWholeSteps) {
  ThreadPool pool(3);
  EXPECT_EQ(ranges_of(pool, 100, 32), (Ranges{{0, 32}, {32, 64}, {64, 96}, {96, 100}}));
  EXPECT_EQ(ranges_of(pool, 20, 16), (Ranges{{0, 16}, {16, 20}}));
  EXPECT_EQ(ranges_of(pool, 0, 16), Ranges{});
}

TEST(ThreadPoolTest, OneStepPerThreadIsMultipleOfGrain) {
  ThreadPool pool(3);
  EXPECT_EQ(pool.one_step_a_thread(100, 16), 48u);
  EXPECT_EQ(pool.one_step_a_thread(96, 16), 32u);
  EXPECT_EQ(pool.one_step_a_thread(1, 16), 16u);
}

// A thread that has finished its own steps takes those of one that is stuck.
TEST(ThreadPoolTest, IdleThreadTakesStepsOfStuckThread) {
  ThreadPool pool(2);
  std::atomic<int> done = 0;
  pool.run(8, 1, [&](std::size_t begin, std::size_t, std::size_t) {
    // The thread with the first step stays there until all others are done.
    while (begin == 0 && done < 7) std::this_thread::yield();
    ++done;
  });
  EXPECT_EQ(done, 8);
}

// A step taken for the wrong loop would run twice or not at all.
TEST(ThreadPoolTest, StepCountMayChangeBetweenLoops) {
  ThreadPool pool(4);
  for (std::uint32_t job = 0; job < 5000; ++job) {
    std::atomic<int> visits[16] = {};
    pool.run(16, 1 + job % 4, [&](std::size_t begin, std::size_t end, std::size_t) {
      for (std::size_t i = begin; i < end; ++i) ++visits[i];
    });
    for (const auto& count : visits) ASSERT_EQ(count, 1) << "job " << job;
  }
}

TEST(ThreadPoolTest, ZeroMeansOneThreadPerFastCore) {
  EXPECT_EQ(ThreadPool(0).thread_count(), fast_cores());
}

// A wake-up lost in any round would hang the test.
TEST(ThreadPoolTest, LosesNoWakeUpOverManyTinyJobs) {
  for (const std::uint32_t threads : {2u, 5u}) {
    ThreadPool pool(threads);
    std::uint64_t total = 0;
    std::vector<std::uint64_t> sums(threads);
    constexpr std::uint64_t kJobs = 20000;
    for (std::uint64_t job = 0; job < kJobs; ++job) {
      pool.run(threads, 1, [&](std::size_t begin, std::size_t end, std::size_t thread) {
        sums[thread] += job * (end - begin);
      });
      // Occasionally long enough for the others to fall asleep.
      if (job % 1000 == 0) {
        for (int i = 0; i < 200; ++i) std::this_thread::yield();
      }
    }
    for (const std::uint64_t sum : sums) total += sum;
    EXPECT_EQ(total, threads * kJobs * (kJobs - 1) / 2);
  }
}

TEST(ThreadPoolTest, StopsWithoutAJob) {
  for (int i = 0; i < 100; ++i) ThreadPool pool(4);
}

// Each job reads data that another thread wrote in the previous one.
TEST(ThreadPoolTest, OrdersJobs) {
  constexpr std::size_t kCount = 64;
  ThreadPool pool(4);
  std::vector<std::uint32_t> from(kCount, 0);
  std::vector<std::uint32_t> to(kCount, 0);
  for (std::uint32_t job = 1; job <= 2000; ++job) {
    pool.run(kCount, 1, [&](std::size_t begin, std::size_t end, std::size_t) {
      for (std::size_t i = begin; i < end; ++i) to[i] = from[kCount - 1 - i] + 1;
    });
    std::swap(from, to);
  }
  EXPECT_EQ(from, std::vector<std::uint32_t>(kCount, 2000));
}

}  // namespace
}  // namespace edgedraft
