#include "tests/bench/machine_limits.h"

#include <algorithm>
#include <iterator>

#include "kernels/cpu/ops.h"
#include "shared/base/clock.h"

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

}  // namespace

LimitMeter::LimitMeter(std::uint32_t threads)
    : pool_(threads), memory_(HostBuffer::for_packed(kBytes)) {
  std::fill_n(memory_->mutable_data(), kBytes, std::byte{1});
  best_.instruction_set = cpu::best_kernels().name;
  best_.threads = pool_.thread_count();
}

double LimitMeter::read_rate() {
  return best_rate(static_cast<double>(kSliceBytes), [&](std::size_t i) {
    const std::byte* slice = memory_->bytes().data() + i * kSliceBytes % kBytes;
    const std::size_t chunk = kChunks[i % std::size(kChunks)];
    pool_.run(kSliceBytes, kGrainBytes, [&](std::size_t begin, std::size_t end, std::size_t) {
      alignas(64) float sink[16];
      cpu::best_kernels().read_stream(slice + begin, end - begin, chunk, sink);
    });
  });
}

// 0 where the instruction set has none.
double LimitMeter::operation_rate(std::size_t (*chains)(std::size_t, float*)) {
  if (chains == nullptr) return 0.0;
  constexpr std::size_t kRounds = 100'000;
  alignas(64) float sink[16];
  const std::size_t amount = chains(kRounds, sink);
  return best_rate(static_cast<double>(amount * pool_.thread_count()), [&](std::size_t) {
    pool_.run(pool_.thread_count(), 1, [&](std::size_t, std::size_t, std::size_t) {
      alignas(64) float own_sink[16];
      chains(kRounds, own_sink);
    });
  });
}

void LimitMeter::measure() {
  const cpu::Kernels& kernels = cpu::best_kernels();
  const auto keep = [](double& best, double rate) { best = std::max(best, rate); };
  keep(best_.read_bytes_per_second, read_rate());
  keep(best_.float_operations_per_second, operation_rate(kernels.fma_chains));
  keep(best_.int8_operations_per_second, operation_rate(kernels.int8_chains));
  keep(best_.short_operations_per_second, operation_rate(kernels.short_chains));
  keep(best_.tile_operations_per_second, operation_rate(kernels.tile_chains));
  keep(best_.bf16_tile_operations_per_second, operation_rate(kernels.bf16_tile_chains));
}

}  // namespace edgedraft::bench
