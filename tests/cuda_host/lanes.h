#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

// Runs a kernel's threads on the host: the blocks of a grid in turn, the threads of a block as
// fibers, so that barriers and exchanges within a warp mean what they mean on a device. A thread
// runs until it waits; from launch to launch the order of a block's threads is turned round, so
// that a missing barrier shows. For the same reason copies into shared memory that a thread may
// wait for are made when they are started in some launches, and only when they are waited for in
// others.
//
// What breaks the rules of the device ends the program with a sentence: lanes that exchange while
// others of their warp wait elsewhere or have left, copies that are not aligned or beyond the
// memory that the launch asked for, and threads that end before their copies have.
namespace edgedraft::cuda_host {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

inline constexpr unsigned kLanesOfWarp = 32;
inline constexpr unsigned kThreadsOfBlockMax = 1024;

// The running thread's place. Threads have one dimension.
struct Running {
  Index thread;
  Index block;
};
const Running& running();

// Runs `kernel` once for every thread, one launch at a time. `block_bytes`: of block_memory(),
// which is filled with NaNs before.
void run_grid(const Index& grid, unsigned threads, std::size_t block_bytes,
              const std::function<void()>& kernel);
// Launches that have been run so far, those of graphs among them.
std::uint64_t kernel_count();

// What a launch may ask for beside __shared__ variables: an H100's at first, which is the most.
inline constexpr std::size_t kBlockMemoryBytesMax = std::size_t{227} << 10;
void set_block_memory(std::size_t bytes_count);
std::size_t block_memory_bytes();
void* block_memory();

// Copies of 4 or 16 bytes into block_memory(), or zeros where `from` is null, that belong to the
// running thread (kernels/cuda/copies.cuh).
void start_copy(void* to, const void* from, std::size_t bytes_count);
void close_copies();
void wait_for_copies(unsigned open_groups);
// Bytes that such copies have read so far.
std::uint64_t copied_bytes();

// Every thread of a kernel has to call it.
void wait_for_kernels_before();

void wait_for_block();
void wait_for_warp();
// Gives `bits` to the warp and returns what `source` gave.
std::uint64_t exchange(std::uint64_t bits, unsigned source);

}  // namespace edgedraft::cuda_host
