#include "tests/bench/machine_limits.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/ops.h"
#include "shared/base/clock.h"
#include "shared/runtime/thread_pool.h"

namespace edgedraft::bench {
namespace {

// Far more than a cache holds, read a millisecond's worth at a time.
constexpr std::size_t kWords = std::size_t{256} * 1024 * 1024 / sizeof(std::uint64_t);
constexpr std::size_t kSliceWords = kWords / 32;
constexpr int kTries = 64;

// The best of many short tries: a limit is what the machine reaches undisturbed.
template <class Job>
double best_rate(double amount, const Job& job) {
  double best = 0.0;
  for (int i = 0; i < kTries; ++i) {
    const Instant start = Clock::now();
    job(static_cast<std::size_t>(i));
    best = std::max(best, amount / seconds(Clock::now() - start));
  }
  return best;
}

// Eight neighbouring streams of 8 KiB at once, as the kernels read the rows of a weight: one alone
// does not fill the memory's queues.
constexpr std::size_t kStreams = 8;
constexpr std::size_t kStreamWords = 1024;
constexpr std::size_t kGroupWords = kStreams * kStreamWords;

std::uint64_t sum_of(const std::uint64_t* words, std::size_t count) {
  std::uint64_t sums[kStreams] = {};
  for (std::size_t group = 0; group + kGroupWords <= count; group += kGroupWords) {
    for (std::size_t i = 0; i < kStreamWords; i += 8) {
      for (std::size_t s = 0; s < kStreams; ++s) {
        const std::uint64_t* line = words + group + s * kStreamWords + i;
        for (std::size_t word = 0; word < 8; ++word) sums[s] += line[word];
      }
    }
  }
  std::uint64_t total = 0;
  for (const std::uint64_t sum : sums) total += sum;
  return total;
}

double read_rate(ThreadPool& pool) {
  const std::vector<std::uint64_t> memory(kWords, 1);
  std::vector<std::uint64_t> sums(pool.thread_count());
  return best_rate(static_cast<double>(kSliceWords * sizeof(std::uint64_t)), [&](std::size_t i) {
    const std::uint64_t* slice = memory.data() + i * kSliceWords % kWords;
    pool.run(kSliceWords, kGroupWords, [&](std::size_t begin, std::size_t end, std::size_t thread) {
      static_cast<volatile std::uint64_t&>(sums[thread]) = sum_of(slice + begin, end - begin);
    });
  });
}

double operation_rate(ThreadPool& pool) {
  constexpr std::size_t kRounds = 100'000;
  alignas(64) float sink[16];
  const std::size_t amount = cpu::best_kernels().fma_chains(kRounds, sink);
  return best_rate(static_cast<double>(amount * pool.thread_count()), [&](std::size_t) {
    pool.run(pool.thread_count(), 1, [&](std::size_t, std::size_t, std::size_t) {
      alignas(64) float own_sink[16];
      cpu::best_kernels().fma_chains(kRounds, own_sink);
    });
  });
}

}  // namespace

MachineLimits measure_limits(std::uint32_t threads) {
  ThreadPool pool(threads);
  return {.instruction_set = cpu::best_kernels().name,
          .threads = pool.thread_count(),
          .read_bytes_per_second = read_rate(pool),
          .operations_per_second = operation_rate(pool)};
}

}  // namespace edgedraft::bench
