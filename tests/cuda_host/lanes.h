#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>

// Runs a kernel's threads on the host. A grid's blocks run one at a time and a block's threads as
// fibers, so barriers and warp exchanges work as on a device. A thread runs until it waits.
// Launches alternate the order of a block's threads, so a missing barrier shows. For the same
// reason some launches perform asynchronous copies at once and others only at the wait.
//
// Violations of the device's rules abort the program with a message. Checked are exchanges while
// other lanes of the warp wait elsewhere or have exited, copies that are misaligned or outside the
// requested memory, and threads that exit before their copies complete.
namespace edgedraft::cuda_host {

struct Index {
  unsigned x = 0, y = 0, z = 0;
};

inline constexpr unsigned kLanesOfWarp = 32;
inline constexpr unsigned kThreadsOfBlockMax = 1024;

// The running thread's index. Threads are one-dimensional.
struct Running {
  Index thread;
  Index block;
};
const Running& running();

// Runs `kernel` once per thread, one launch at a time. `block_bytes` is the size of block_memory(),
// which is filled with NaNs first.
void run_grid(const Index& grid, unsigned threads, std::size_t block_bytes,
              const std::function<void()>& kernel);
// Launches so far, including those of graphs.
std::uint64_t kernel_count();

// Maximum dynamic shared memory per launch: initially an H100's, the largest.
inline constexpr std::size_t kBlockMemoryBytesMax = std::size_t{227} << 10;
void set_block_memory(std::size_t bytes_count);
std::size_t block_memory_bytes();
void* block_memory();

// Asynchronous copies of 4 or 16 bytes into block_memory() for the running thread
// (kernels/cuda/copies.cuh); writes zeros if `from` is null.
void start_copy(void* to, const void* from, std::size_t bytes_count);
void close_copies();
void wait_for_copies(unsigned open_groups);
// Bytes read by such copies so far.
std::uint64_t copied_bytes();

// Every thread of a kernel has to call it.
void wait_for_kernels_before();

void wait_for_block();
void wait_for_warp();
// Offers `bits` to the warp and returns the value of lane `source`.
std::uint64_t exchange(std::uint64_t bits, unsigned source);

}  // namespace edgedraft::cuda_host
