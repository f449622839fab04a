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

namespace edgedraft {

// The device's stream, and the way to it for every kernel.
//
// With graphs, launches are not started one by one: they are gathered until somebody waits or uses
// the stream for something else. A list of launches that comes a second time, with the same kernels
// and bit for bit the same arguments, is captured as a CUDA graph, which from then on starts the
// whole list in one call. Nothing is ever run from a graph but the list that it was made of, so
// whoever enqueues need not think of graphs; but only lists whose arguments repeat gain by them.
// What differs from pass to pass is to lie in device memory (CudaArguments).
//
// Where there is no memory for a graph, all graphs are dropped, and lists that come again get new
// ones. Where it cannot be made for another reason, launches are
// started one by one from then on, and `on_notice` is told, once.
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

  // Whether launches are gathered, so that what they are given has to stay until start().
  bool gathers() const { return gathers_; }

  // Enqueues launcher(args, stream). Throws DeviceError where that fails, now or in start().
  template <class Args>
  void enqueue(cudaError_t (*launcher)(const Args&, cudaStream_t), Args args) {
    static_assert(std::is_trivially_copyable_v<Args>);
    if (!gathers_) {
      try_cuda(launcher(args, use()), "starting a kernel");
      return;
    }
#if defined(__has_builtin)
#if __has_builtin(__builtin_clear_padding)
    // So that the same arguments are the same bytes. An array whose elements have padding between
    // their members is not to be in them: GCC 12 clears other bytes there.
    __builtin_clear_padding(&args);
#endif
#endif
    gather({.run = &run<Args>,
            .launcher = reinterpret_cast<Launcher>(launcher),
            .bytes_count = sizeof args},
           reinterpret_cast<const std::byte*>(&args));
  }

  // Starts what has been gathered. Throws DeviceError; the list is gone then.
  void start();
  // The stream, for calls that are not gathered. Starts what has been gathered, and makes the
  // device the calling thread's.
  cudaStream_t stream();
  // Makes the device the calling thread's, for calls without the stream: CUDA would take the first
  // device for them.
  void choose_device() const;
  // The same as stream() for destructors: what fails is thrown by the next start().
  cudaStream_t stream_for_release() noexcept;
  // The stream as it is, for what is not ordered by it.
  cudaStream_t raw() const {
    return stream_;
  }
  // Drops what has been gathered, and gathers no more: for the end.
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
    std::size_t bytes_count;  // of the arguments, which follow
  };
  // Launches with their arguments, one behind the other.
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
  // Null where it cannot be made.
  Graph* make_graph(std::size_t hash, const List& list);
  cudaError_t instantiate(const List& list, cudaGraphExec_t& executable);
  // A graph could not be made, for that reason: no more are made, but where memory was short.
  void do_without_graph(cudaError_t why);
  void drop_graphs();
  bool seen_before(std::size_t hash);

  Options options_;
  cudaStream_t stream_ = nullptr;
  bool gathers_;
  std::function<void(cudaStream_t)> prepare_;
  List list_;
  std::string failed_;  // while something was released; empty: nothing
  List started_;        // kept so that passes do not allocate
  std::unordered_map<std::size_t, Graph> graphs_;
  std::uint64_t uses_ = 0;
  std::vector<std::size_t> seen_;  // hashes of lists that came once, the next place is the oldest's
  std::size_t seen_next_ = 0;
};

}  // namespace edgedraft
