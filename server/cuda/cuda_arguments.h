#pragma once

#include <cuda_runtime.h>

#include <array>
#include <span>
#include <unordered_map>

#include "server/cuda/cuda_memory.h"
#include "server/cuda/cuda_queue.h"
#include "shared/base/bytes.h"

namespace edgedraft::server {

// Uploads an operation's small arrays (tokens, positions, attention tables) to the device.
//
// For recorded launches, arrays are packed from a fixed address, list by list, and copied in one
// piece before the list starts. Passes of the same shape thus find their arrays at the same
// addresses. Arrays with the same source address and contents, such as every layer's in a pass, are
// stored once.
//
// For immediate launches, each array is copied separately into a ring buffer. Arrays of recent
// calls are not copied again.
class CudaArguments {
 public:
  static constexpr std::size_t kArrayBytesMax = std::size_t{1} << 20;

  // Requires  the queue outlives it
  explicit CudaArguments(CudaQueue& queue);
  ~CudaArguments();
  CudaArguments(const CudaArguments&) = delete;
  CudaArguments& operator=(const CudaArguments&) = delete;

  // Valid for the next enqueued operation.
  template <class T>
  const T* on_device(std::span<const T> values) {
    const ByteView bytes = std::as_bytes(values);
    return reinterpret_cast<const T*>(queue_.gathers() ? in_list(bytes) : in_ring(bytes));
  }
  // For an operation that starts at once even while others are recorded.
  template <class T>
  const T* on_device_now(std::span<const T> values) {
    return reinterpret_cast<const T*>(in_ring(std::as_bytes(values)));
  }
  // Call between operations: starts the list if the next operation's arrays might not fit.
  void make_room();

 private:
  struct Entry {
    std::size_t offset;
    std::size_t bytes_count;
  };

  const std::byte* in_ring(ByteView bytes);
  const std::byte* in_list(ByteView bytes);
  std::size_t add(ByteView bytes);
  void upload(cudaStream_t stream);

  CudaQueue& queue_;

  PinnedMemory ring_host_;
  CudaBuffer ring_device_;
  std::size_t ring_end_ = 0;
  std::array<Entry, 128> recent_{};
  std::size_t recent_next_ = 0;

  PinnedMemory list_host_;
  CudaBuffer list_device_;
  std::size_t list_end_ = 0;
  std::unordered_map<const std::byte*, Entry> known_;  // by source address
  cudaEvent_t uploaded_ = nullptr;                     // after the last list's arrays
};

}  // namespace edgedraft::server
