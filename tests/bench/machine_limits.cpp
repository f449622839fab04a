#include "tests/bench/machine_limits.h"

#include <algorithm>
#include <iterator>

#include "kernels/cpu/ops.h"
#include "shared/base/clock.h"
#include "shared/runtime/host_backend.h"
#include "shared/runtime/thread_pool.h"

namespace edgedraft::bench {
namespace {

// Far more than a cache of a core holds, read a few milliseconds' worth at a time.
constexpr std::size_t kBytes = std::size_t{512} << 20;
constexpr std::size_t kSliceBytes = std::size_t{64} << 20;
constexpr std::size_t kGrainBytes = std::size_t{64} << 10;
constexpr int kTries = 48;

// Which one is the fastest depends on the processor: how far to ask ahead, or not at all.
constexpr std::size_t kChunks[] = {0, std::size_t{4} << 10, kGrainBytes};

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

double read_rate(ThreadPool& pool) {
  const auto memory = HostBuffer::for_packed(kBytes);
  std::fill_n(memory->mutable_data(), kBytes, std::byte{1});
  return best_rate(static_cast<double>(kSliceBytes), [&](std::size_t i) {
    const std::byte* slice = memory->bytes().data() + i * kSliceBytes % kBytes;
    const std::size_t chunk = kChunks[i % std::size(kChunks)];
    pool.run(kSliceBytes, kGrainBytes, [&](std::size_t begin, std::size_t end, std::size_t) {
      alignas(64) float sink[16];
      cpu::best_kernels().read_stream(slice + begin, end - begin, chunk, sink);
    });
  });
}

// 0 where the instruction set has none.
double operation_rate(ThreadPool& pool, std::size_t (*chains)(std::size_t, float*)) {
  if (chains == nullptr) return 0.0;
  constexpr std::size_t kRounds = 100'000;
  alignas(64) float sink[16];
  const std::size_t amount = chains(kRounds, sink);
  return best_rate(static_cast<double>(amount * pool.thread_count()), [&](std::size_t) {
    pool.run(pool.thread_count(), 1, [&](std::size_t, std::size_t, std::size_t) {
      alignas(64) float own_sink[16];
      chains(kRounds, own_sink);
    });
  });
}

}  // namespace

MachineLimits measure_limits(std::uint32_t threads) {
  ThreadPool pool(threads);
  const cpu::Kernels& kernels = cpu::best_kernels();
  return {.instruction_set = kernels.name,
          .threads = pool.thread_count(),
          .read_bytes_per_second = read_rate(pool),
          .float_operations_per_second = operation_rate(pool, kernels.fma_chains),
          .int8_operations_per_second = operation_rate(pool, kernels.int8_chains),
          .short_operations_per_second = operation_rate(pool, kernels.short_chains),
          .tile_operations_per_second = operation_rate(pool, kernels.tile_chains),
          .bf16_tile_operations_per_second = operation_rate(pool, kernels.bf16_tile_chains)};
}

void MachineLimits::keep_best(const MachineLimits& other) {
  for (double MachineLimits::*limit :
       {&MachineLimits::read_bytes_per_second, &MachineLimits::float_operations_per_second,
        &MachineLimits::int8_operations_per_second, &MachineLimits::short_operations_per_second,
        &MachineLimits::tile_operations_per_second,
        &MachineLimits::bf16_tile_operations_per_second}) {
    this->*limit = std::max(this->*limit, other.*limit);
  }
}

}  // namespace edgedraft::bench
