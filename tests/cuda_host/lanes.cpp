#include "tests/cuda_host/lanes.h"

#include <algorithm>
#include <array>
#include <atomic>
#include <boost/context/fiber.hpp>
#include <boost/context/fixedsize_stack.hpp>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <mutex>
#include <vector>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace edgedraft::cuda_host {
namespace {

constexpr std::size_t kStackBytes = 256 * 1024;

enum class State : std::uint8_t { ready, at_warp_barrier, at_block_barrier, done };

[[noreturn]] void broken(const char* what) {
  std::fprintf(stderr, "kernel on the host: %s\n", what);
  std::abort();
}

// A copy into shared memory that was started.
struct Copy {
  void* to;
  const void* from;  // null for zeros
  std::size_t bytes_count;
  unsigned group;
};
void make(const Copy& copy) {
  if (copy.from == nullptr) {
    std::memset(copy.to, 0, copy.bytes_count);
  } else {
    std::memcpy(copy.to, copy.from, copy.bytes_count);
  }
}

// Created once and reused by every kernel.
struct Lane {
  boost::context::fiber fiber;
  boost::context::fiber scheduler;
  State state = State::done;
  bool second_slots = false;  // which of its warp's slots it uses for the next exchange
  bool waited_for_kernels_before = false;
  std::vector<Copy> copies;  // not yet waited for
  unsigned closed_groups = 0;
  Running place;
#if defined(__SANITIZE_ADDRESS__)
  const void* stack = nullptr;
  std::size_t stack_bytes = 0;
#endif
#if defined(__SANITIZE_THREAD__)
  void* tsan_fiber = __tsan_create_fiber(0);
#endif
};

// Two sets of slots: a lane can be at most one exchange ahead of the others.
using Slots = std::array<std::array<std::uint64_t, kLanesOfWarp>, 2>;

class Block {
 public:
  void run(const Index& grid, unsigned threads, std::size_t block_bytes,
           const std::function<void()>& kernel) {
    if (threads == 0 || threads > kThreadsOfBlockMax) broken("invalid number of threads per block");
    kernel_ = &kernel;
    backwards_ = !backwards_;
    if (backwards_) late_copies_ = !late_copies_;
    block_bytes_ = block_bytes;
    memory_.fill(kUnused);  // memory beyond the launch's request keeps this value
    while (lanes_.size() < threads) add_lane();
    for (unsigned z = 0; z < grid.z; ++z) {
      for (unsigned y = 0; y < grid.y; ++y) {
        for (unsigned x = 0; x < grid.x; ++x) {
          for (unsigned i = 0; i < threads; ++i) {
            lanes_[i]->state = State::ready;
            lanes_[i]->second_slots = false;
            lanes_[i]->waited_for_kernels_before = false;
            lanes_[i]->closed_groups = 0;
            lanes_[i]->place = {{i, 0, 0}, {x, y, z}};
          }
          std::fill_n(memory_.begin(), block_bytes, kUnused);
          run_block(threads);
        }
      }
    }
    for (std::size_t i = block_bytes; i < memory_.size(); ++i) {
      if (memory_[i] != kUnused) broken("write to shared memory beyond the launch's request");
    }
  }

  void* memory() { return memory_.data(); }

  void start_copy(const Copy& copy) {
    const auto at = reinterpret_cast<std::uintptr_t>(copy.to);
    const auto first = reinterpret_cast<std::uintptr_t>(memory_.data());
    if (at < first || at + copy.bytes_count > first + block_bytes_)
      broken("copy beyond the memory that the launch requested");
    if (at % copy.bytes_count != 0 ||
        reinterpret_cast<std::uintptr_t>(copy.from) % copy.bytes_count != 0)
      broken("misaligned copy");
    if (copy.from != nullptr) copied_bytes_ += copy.bytes_count;
    if (!late_copies_) make(copy);
    current_->copies.push_back(copy);
    current_->copies.back().group = current_->closed_groups;
  }

  std::uint64_t copied_bytes() const { return copied_bytes_; }

  void close_copies() { ++current_->closed_groups; }

  void wait_for_copies(unsigned open_groups) {
    Lane& lane = *current_;
    std::erase_if(lane.copies, [&](const Copy& copy) {
      if (copy.group + open_groups >= lane.closed_groups) return false;
      if (late_copies_) make(copy);
      return true;
    });
  }

  const Running& place() const { return current_->place; }

  void wait(State state) {
    Lane& lane = *current_;
    lane.state = state;
    leave(lane);
  }

  void wait_for_kernels_before() { current_->waited_for_kernels_before = true; }

  std::uint64_t exchange(std::uint64_t bits, unsigned source) {
    Lane& lane = *current_;
    auto& slots = slots_[lane.place.thread.x / kLanesOfWarp][lane.second_slots ? 1 : 0];
    lane.second_slots = !lane.second_slots;
    slots[lane.place.thread.x % kLanesOfWarp] = bits;
    wait(State::at_warp_barrier);
    return slots[source % kLanesOfWarp];
  }

 private:
  void add_lane() {
    auto& lane = *lanes_.emplace_back(std::make_unique<Lane>());
    lane.fiber =
        boost::context::fiber(std::allocator_arg, boost::context::fixedsize_stack(kStackBytes),
                              [this, &lane](boost::context::fiber&& scheduler) {
                                lane.scheduler = std::move(scheduler);
                                arrived();
                                for (;;) {
                                  (*kernel_)();
                                  if (!lane.waited_for_kernels_before)
                                    broken("a thread exited before it waited for earlier kernels");
                                  if (!lane.copies.empty())
                                    broken("a thread exited before its copies were complete");
                                  lane.state = State::done;
                                  leave(lane);
                                }
                                return std::move(lane.scheduler);
                              });
  }

  // Runs on the scheduler's stack.
  void resume(Lane& lane) {
    current_ = &lane;
#if defined(__SANITIZE_THREAD__)
    tsan_scheduler_ = __tsan_get_current_fiber();
    __tsan_switch_to_fiber(lane.tsan_fiber, 0);
#endif
#if defined(__SANITIZE_ADDRESS__)
    void* fake_stack = nullptr;
    __sanitizer_start_switch_fiber(&fake_stack, lane.stack, lane.stack_bytes);
#endif
    lane.fiber = std::move(lane.fiber).resume();
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_stack, &lane.stack, &lane.stack_bytes);
#endif
  }

  // Runs on the lane's stack and switches to the scheduler and back.
  void leave(Lane& lane) {
#if defined(__SANITIZE_THREAD__)
    __tsan_switch_to_fiber(tsan_scheduler_, 0);
#endif
#if defined(__SANITIZE_ADDRESS__)
    void* fake_stack = nullptr;
    __sanitizer_start_switch_fiber(&fake_stack, scheduler_stack_, scheduler_stack_bytes_);
#endif
    lane.scheduler = std::move(lane.scheduler).resume();
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(fake_stack, &scheduler_stack_, &scheduler_stack_bytes_);
#endif
  }

  void arrived() {
#if defined(__SANITIZE_ADDRESS__)
    __sanitizer_finish_switch_fiber(nullptr, &scheduler_stack_, &scheduler_stack_bytes_);
#endif
  }

  void run_block(unsigned threads) {
    for (;;) {
      unsigned done = 0;
      const unsigned warps = (threads + kLanesOfWarp - 1) / kLanesOfWarp;
      for (unsigned i = 0; i < warps; ++i) {
        const unsigned first = (backwards_ ? warps - 1 - i : i) * kLanesOfWarp;
        done += run_warp(first, std::min(kLanesOfWarp, threads - first));
      }
      if (done == threads) return;
      // Lanes that have exited do not count at a block's barrier.
      for (unsigned i = 0; i < threads; ++i) {
        if (lanes_[i]->state == State::at_block_barrier) lanes_[i]->state = State::ready;
      }
    }
  }

  // Runs until all lanes are done or wait for the block. Returns the number of lanes done.
  unsigned run_warp(unsigned first, unsigned count) {
    for (;;) {
      unsigned done = 0;
      unsigned at_warp_barrier = 0;
      for (unsigned i = 0; i < count; ++i) {
        Lane& lane = *lanes_[first + (backwards_ ? count - 1 - i : i)];
        if (lane.state == State::ready) resume(lane);
        done += lane.state == State::done ? 1 : 0;
        at_warp_barrier += lane.state == State::at_warp_barrier ? 1 : 0;
      }
      if (at_warp_barrier == 0) return done;
      if (at_warp_barrier != count)
        broken("lanes of a warp exchange while others wait or have exited");
      for (unsigned i = 0; i < count; ++i) lanes_[first + i]->state = State::ready;
    }
  }

  std::vector<std::unique_ptr<Lane>> lanes_;
  std::array<Slots, kThreadsOfBlockMax / kLanesOfWarp> slots_{};
  const std::function<void()>* kernel_ = nullptr;
  Lane* current_ = nullptr;
  bool backwards_ = false;
  bool late_copies_ = false;
  std::uint64_t copied_bytes_ = 0;
  std::size_t block_bytes_ = 0;
  static constexpr std::byte kUnused{0xFF};
  alignas(16) std::array<std::byte, kBlockMemoryBytesMax> memory_;
#if defined(__SANITIZE_ADDRESS__)
  const void* scheduler_stack_ = nullptr;
  std::size_t scheduler_stack_bytes_ = 0;
#endif
#if defined(__SANITIZE_THREAD__)
  void* tsan_scheduler_ = nullptr;
#endif
};

std::atomic<std::size_t> block_memory_limit = kBlockMemoryBytesMax;
std::atomic<std::uint64_t> kernels_run = 0;

// Never destroyed: its fibers hold no resources, and unwinding them would need an exception.
Block& block() {
  static Block* const the_block = new Block;
  return *the_block;
}

}  // namespace

const Running& running() {
  return block().place();
}

void run_grid(const Index& grid, unsigned threads, std::size_t block_bytes,
              const std::function<void()>& kernel) {
  static std::mutex mutex;
  const std::lock_guard lock(mutex);
  ++kernels_run;
  block().run(grid, threads, block_bytes, kernel);
}

std::uint64_t kernel_count() {
  return kernels_run;
}

void set_block_memory(std::size_t bytes_count) {
  block_memory_limit = bytes_count;
}

std::size_t block_memory_bytes() {
  return block_memory_limit;
}

void* block_memory() {
  return block().memory();
}

void start_copy(void* to, const void* from, std::size_t bytes_count) {
  block().start_copy({to, from, bytes_count, 0});
}

void close_copies() {
  block().close_copies();
}

void wait_for_copies(unsigned open_groups) {
  block().wait_for_copies(open_groups);
}

std::uint64_t copied_bytes() {
  return block().copied_bytes();
}

void wait_for_kernels_before() {
  block().wait_for_kernels_before();
}

void wait_for_block() {
  block().wait(State::at_block_barrier);
}

void wait_for_warp() {
  block().wait(State::at_warp_barrier);
}

std::uint64_t exchange(std::uint64_t bits, unsigned source) {
  return block().exchange(bits, source);
}

}  // namespace edgedraft::cuda_host
