#include "tests/bench/machine_limits.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/ops.h"
#include "shared/base/clock.h"
#include "shared/runtime/thread_pool.h"

namespace edgedraft::bench {
namespace {

constexpr int kTries = 8;
constexpr std::size_t kWords = std::size_t{256} * 1024 * 1024 / sizeof(std::uint64_t);

// The best of a few tries: limits are what the machine reaches undisturbed.
template <class Job>
double best_rate(double amount, const Job& job) {
  double best = 0.0;
  for (int i = 0; i < kTries; ++i) {
    const Instant start = Clock::now();
    job();
    best = std::max(best, amount / seconds(Clock::now() - start));
  }
  return best;
}

double read_rate(ThreadPool& pool) {
  const std::vector<std::uint64_t> memory(kWords, 1);
  std::vector<std::uint64_t> sums(pool.thread_count() * 8);
  return best_rate(static_cast<double>(kWords * sizeof(std::uint64_t)), [&] {
    pool.run(kWords, 512, [&](std::size_t begin, std::size_t end, std::size_t thread) {
      std::uint64_t sum = 0;
      for (std::size_t i = begin; i < end; ++i) sum += memory[i];
      static_cast<volatile std::uint64_t&>(sums[thread * 8]) = sum;
    });
  });
}

double operation_rate(ThreadPool& pool) {
  constexpr std::size_t kRounds = 2'000'000;
  alignas(64) float sink[16];
  const std::size_t amount = cpu::best_kernels().fma_chains(1000, sink) / 1000 * kRounds;
  return best_rate(static_cast<double>(amount * pool.thread_count()), [&] {
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
