#include "tests/bench/machine_limits.h"

#include <algorithm>
#include <array>
#include <vector>

#include "shared/base/clock.h"

namespace edgedraft::bench {
namespace {

// Far more than a core's cache, read a few milliseconds' worth at a time.
constexpr std::size_t kBytes = std::size_t{512} << 20;
constexpr std::size_t kSliceBytes = std::size_t{64} << 20;
constexpr std::size_t kGrainBytes = std::size_t{64} << 10;
// Rounds per piece, some hundredths of a millisecond; a measurement takes many pieces.
constexpr std::size_t kChainRounds = 16'000;
constexpr std::size_t kPiecesAThread = 20;
constexpr int kTries = 48;

// Prefetch distances (0: none); the fastest one depends on the processor.
constexpr std::array kChunks = {std::size_t{0}, std::size_t{4} << 10, kGrainBytes};

// Operation chains of the instruction set, and the limit that each one measures.
struct Chains {
  std::size_t (*run)(std::size_t rounds, float* sink);
  double MachineLimits::*rate;
};
std::vector<Chains> all_chains(const cpu::Kernels& kernels) {
  std::vector<Chains> chains = {
      {kernels.fma_chains, &MachineLimits::float_operations_per_second},
      {kernels.int8_chains, &MachineLimits::int8_operations_per_second},
      {kernels.short_chains, &MachineLimits::short_operations_per_second},
      {kernels.tile_chains, &MachineLimits::tile_operations_per_second},
      {kernels.bf16_tile_chains, &MachineLimits::bf16_tile_operations_per_second}};
  std::erase_if(chains, [](const Chains& c) { return c.run == nullptr; });
  return chains;
}

// An amount of work and its time.
struct Amount {
  double done = 0.0;
  double seconds = 0.0;

  double rate() const { return done / seconds; }
  void operator+=(const Amount& other) {
    done += other.done;
    seconds += other.seconds;
  }
};

Amount read(ThreadPool& pool, const cpu::Kernels& kernels, const std::byte* from,
            std::size_t chunk_bytes) {
  const Instant start = Clock::now();
  pool.run(kSliceBytes, kGrainBytes, [&](std::size_t begin, std::size_t end, std::size_t) {
    alignas(64) float sink[16];
    kernels.read_stream(from + begin, end - begin, chunk_bytes, sink);
  });
  return {static_cast<double>(kSliceBytes), seconds(Clock::now() - start)};
}

// Threads steal pieces from each other, as in a matmul, so none waits for a slow one.
Amount compute(ThreadPool& pool, const Chains& chains) {
  const std::size_t pieces = kPiecesAThread * pool.thread_count();
  std::vector<std::size_t> operations(pieces);
  const Instant start = Clock::now();
  pool.run(pieces, 1, [&](std::size_t begin, std::size_t end, std::size_t) {
    alignas(64) float sink[16];
    for (std::size_t i = begin; i < end; ++i) operations[i] = chains.run(kChainRounds, sink);
  });
  Amount amount{0.0, seconds(Clock::now() - start)};
  for (const std::size_t count : operations) amount.done += static_cast<double>(count);
  return amount;
}

}  // namespace

LimitMeter::LimitMeter(const cpu::Kernels& kernels, std::uint32_t threads)
    : kernels_(kernels), pool_(threads), memory_(HostBuffer::for_packed(kBytes)) {
  std::fill_n(memory_->mutable_data(), kBytes, std::byte{1});
  best_.instruction_set = kernels.name;
  best_.threads = pool_.thread_count();
}

const std::byte* LimitMeter::next_slice() {
  slice_ = (slice_ + kSliceBytes) % kBytes;
  return memory_->bytes().data() + slice_;
}

void LimitMeter::measure() {
  for (int i = 0; i < kTries; ++i) {
    const std::size_t chunk = kChunks[static_cast<std::size_t>(i) % kChunks.size()];
    const double rate = read(pool_, kernels_, next_slice(), chunk).rate();
    if (rate <= best_.read_bytes_per_second) continue;
    best_.read_bytes_per_second = rate;
    best_chunk_bytes_ = chunk;
  }
  for (const Chains& chains : all_chains(kernels_)) {
    double& best = best_.*chains.rate;
    for (int i = 0; i < kTries; ++i) best = std::max(best, compute(pool_, chains).rate());
  }
}

MachineLimits LimitMeter::sample(double duration) {
  const std::vector<Chains> kinds = all_chains(kernels_);
  Amount bytes;
  std::vector<Amount> operations(kinds.size());
  for (double computed = 0.0; computed < duration / 2;) {
    while (bytes.seconds <= computed) {
      bytes += read(pool_, kernels_, next_slice(), best_chunk_bytes_);
    }
    for (std::size_t k = 0; k < kinds.size(); ++k) {
      const Amount amount = compute(pool_, kinds[k]);
      operations[k] += amount;
      computed += amount.seconds;
    }
  }
  MachineLimits mean = best_;
  mean.read_bytes_per_second = bytes.rate();
  for (std::size_t k = 0; k < kinds.size(); ++k) mean.*kinds[k].rate = operations[k].rate();
  return mean;
}

}  // namespace edgedraft::bench
