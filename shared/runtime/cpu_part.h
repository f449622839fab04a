#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "kernels/cpu/kernels.h"
#include "kernels/cpu/ops.h"
#include "shared/runtime/backend.h"
#include "shared/runtime/cpu_memory.h"
#include "shared/runtime/host_backend.h"
#include "shared/runtime/thread_pool.h"

namespace edgedraft {

// Below this many steps (one multiply-add or one moved element) a single thread is faster than
// waking another.
inline constexpr std::uint64_t kParallelStepsMin = 32 * 1024;
// Work above this is shared out in parts of at least this size, so that a faster thread takes more
// of them. Below it, one part per thread is cheapest.
inline constexpr std::uint64_t kTurnStepsMin = 64 * 1024;
// Cost of e^x, in steps.
inline constexpr std::uint64_t kExpSteps = 8;

// An operation's items (kernels/cpu/ops.h), the multiples in which threads get them, and its cost.
struct Extent {
  std::size_t items;
  std::size_t grain;
  std::uint64_t steps;
};

// Threads of a CPU backend, each with scratch memory.
class CpuThreads {
 public:
  CpuThreads(std::uint32_t threads, std::shared_ptr<MemoryMeter> meter)
      : pool_(threads), meter_(std::move(meter)), scratch_(pool_.thread_count()) {
    reserve_scratch(kProductScratchFloats);
  }

  ThreadPool& pool() { return pool_; }

  // Grows to the largest operation seen. After a failed growth nothing is left, so every operation
  // reserves what it needs.
  void reserve_scratch(std::size_t floats) {
    if (floats <= scratch_floats_) return;
    scratch_floats_ = 0;
    for (auto& memory : scratch_) reserve(memory, floats * sizeof(float));
    scratch_floats_ = floats;
  }

  void reserve(std::unique_ptr<HostBuffer>& memory, std::size_t bytes) {
    if (memory && memory->bytes().size() >= bytes) return;
    memory.reset();
    memory = std::make_unique<HostBuffer>(bytes, meter_);
  }

  float* scratch(std::size_t thread) {
    return reinterpret_cast<float*>(scratch_[thread]->mutable_data());
  }

  // Calls task(begin, end, thread) for all items, on all threads if the work is large enough.
  template <class Task>
  void share(std::size_t items, std::size_t grain, std::uint64_t steps, const Task& task) {
    reserve_scratch(kProductScratchFloats);
    if (steps < kParallelStepsMin) {
      task(0, items, 0);
    } else {
      const std::uint64_t turns = std::max<std::uint64_t>(steps / kTurnStepsMin, 1);
      const std::size_t step = (items + turns * grain - 1) / (turns * grain) * grain;
      pool_.run(items, std::min(step, pool_.one_step_a_thread(items, grain)), task);
    }
  }

  template <class Args>
  void run(void (*kernel)(const Args&, const cpu::Work&), const Args& args, const Extent& extent) {
    share(extent.items, extent.grain, extent.steps,
          [&](std::size_t begin, std::size_t end, std::size_t thread) {
            kernel(args, {.begin = begin, .end = end, .scratch = scratch(thread)});
          });
  }

 private:
  ThreadPool pool_;
  std::shared_ptr<MemoryMeter> meter_;
  std::vector<std::unique_ptr<HostBuffer>> scratch_;  // one per thread
  std::size_t scratch_floats_ = 0;
};

// Base of the parts of a CPU backend: its kernels and threads, and operands as kernels take them.
// Both outlive the part.
class CpuPart {
 protected:
  CpuPart(const cpu::Kernels& kernels, CpuThreads& threads)
      : kernels_(kernels), threads_(threads) {}

  static cpu::Rows rows(const Matrix& m) { return {HostBackend::data(m), m.stride}; }
  static cpu::ConstRows const_rows(const Matrix& m) { return {HostBackend::data(m), m.stride}; }
  static cpu::Cache cache(const CacheView& view) {
    return {HostBackend::data(view.memory), view.memory.stride, view.memory.type};
  }
  static cpu::ConstCache const_cache(const CacheView& view) {
    return {HostBackend::data(view.memory), view.memory.stride, view.memory.type};
  }
  static cpu::Pages pages(const CacheView& cache) {
    if (!cache.paged()) return {};
    return {cache.pages.data(), static_cast<unsigned>(std::countr_zero(cache.page_slots))};
  }

  static Extent by_rows(const Matrix& m, std::uint64_t steps_a_number = 1) {
    return {.items = m.rows, .grain = 1, .steps = std::uint64_t{m.rows} * m.cols * steps_a_number};
  }

  template <class Args>
  void run(void (*kernel)(const Args&, const cpu::Work&), const Args& args, const Extent& extent) {
    threads_.run(kernel, args, extent);
  }

  const cpu::Kernels& kernels_;
  CpuThreads& threads_;
};

}  // namespace edgedraft
