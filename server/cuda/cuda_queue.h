#pragma once

#include <cuda_runtime.h>

#include <cstddef>
#include <cstdint>
#include <cstring>
#include <functional>
#include <string>
#include <type_traits>
#include <unordered_map>
#include <utility>
#include <vector>

#include "server/cuda/cuda_error.h"

namespace edgedraft::server {

// The device's stream, through which all kernels are enqueued.
//
// With graphs, launches are recorded until a caller waits or uses the stream directly. A list of
// launches that repeats, with the same kernels and bit-identical arguments, is captured as a CUDA
// graph. The graph starts the whole list in one call. A graph only ever replays the list it was
// made from, so callers need not know about graphs; but only lists with repeating arguments gain.
// Keep data that changes per pass in device memory (CudaArguments).
//
// If graph instantiation runs out of memory, all graphs are destroyed, and repeating lists get new
// ones. After any other failure, launches start one by one, and `on_notice` is called once.
//
// Threads   one at a time
class CudaQueue {
 public:
  struct Options {
    int device = 0;
    bool graphs = true;
    std::function<void(const std::string&)> on_notice;  // may be empty
  };
  // Throws DeviceError
  explicit CudaQueue(Options options);
  ~CudaQueue();
  CudaQueue(const CudaQueue&) = delete;
  CudaQueue& operator=(const CudaQueue&) = delete;

  // True if launches are recorded, so that their arguments must stay valid until start().
  bool gathers() const { return gathers_; }

  // Enqueues launcher(args, stream). Throws DeviceError if that fails, now or in start().
  template <class Args>
  void enqueue(cudaError_t (*launcher)(const Args&, cudaStream_t), Args args) {
    static_assert(std::is_trivially_copyable_v<Args>);
    if (!gathers_) {
      try_cuda(launcher(args, use()), "launching a kernel");
      return;
    }
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
    // Makes equal arguments equal bytes. Do not pass arrays whose elements have padding between
    // members: GCC 12 clears the wrong bytes there.
    __builtin_clear_padding(&args);
#endif
#endif
    gather({.run = &run<Args>,
            .launcher = reinterpret_cast<Launcher>(launcher),
            .bytes_count = sizeof args},
           reinterpret_cast<const std::byte*>(&args));
  }

  // Starts the recorded launches. Throws DeviceError; the list is lost then.
  void start();
  // The stream, for calls that are not recorded. Starts the recorded launches and selects the
  // device for the calling thread.
  cudaStream_t stream();
  // Selects the device for the calling thread, for calls without the stream; CUDA would use the
  // first device.
  void choose_device() const;
  // Like stream(), for destructors: the next start() throws any failure.
  cudaStream_t stream_for_release() noexcept;
  // The raw stream, for work outside its order.
  cudaStream_t raw() const {
    return stream_;
  }
  // Drops recorded launches and stops recording, for shutdown.
  void abandon() noexcept;
  // Waits for the device. Throws DeviceError, naming `what`.
  void wait(const char* what);

  // Called before each list is started, with the stream.
  void set_prepare(std::function<void(cudaStream_t)> prepare) {
    prepare_ = std::move(prepare);
  }

 private:
  using Launcher = void (*)();
  struct Launch {
    cudaError_t (*run)(Launcher, const std::byte*, cudaStream_t);
    Launcher launcher;
    std::size_t bytes_count;  // bytes of the arguments, which follow
  };
  // Launches with their arguments, back to back.
  using List = std::vector<std::byte>;
  struct Graph {
    List list;
    cudaGraphExec_t executable;
    std::uint64_t used;
  };

  template <class Args>
  static cudaError_t run(Launcher launcher, const std::byte* bytes, cudaStream_t stream) {
    Args args;
    std::memcpy(&args, bytes, sizeof args);
    return reinterpret_cast<cudaError_t (*)(const Args&, cudaStream_t)>(launcher)(args, stream);
  }

  cudaStream_t use() const;
  void gather(const Launch& launch, const std::byte* args);
  cudaError_t run_list(const List& list);
  // Null if it cannot be created.
  Graph* make_graph(std::size_t hash, const List& list);
  cudaError_t instantiate(const List& list, cudaGraphExec_t& executable);
  // Handles a failed graph: stops using graphs, except after running out of memory.
  void do_without_graph(cudaError_t why);
  void drop_graphs();
  bool seen_before(std::size_t hash);

  Options options_;
  cudaStream_t stream_ = nullptr;
  bool gathers_;
  std::function<void(cudaStream_t)> prepare_;
  List list_;
  std::string failed_;  // failure during a release; empty: none
  List started_;        // kept so that passes do not allocate
  std::unordered_map<std::size_t, Graph> graphs_;
  std::uint64_t uses_ = 0;
  std::vector<std::size_t> seen_;  // hashes of lists seen once, a ring
  std::size_t seen_next_ = 0;
};

}  // namespace edgedraft::server
