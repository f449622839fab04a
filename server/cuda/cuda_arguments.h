#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <span>
#include <unordered_map>

#include "server/cuda/cuda_memory.h"
#include "server/cuda/cuda_queue.h"
#include "shared/base/bytes.h"

namespace edgedraft {

// Small arrays of a call (tokens, positions, attention's tables) on the device.
//
// For launches that are gathered, arrays lie one behind the other from the same place on, list for
// list, and are copied in one piece before the list is started: passes of the same shape so find
// their arrays at the same addresses, whatever is in them. Arrays that come from the same memory
// with the same contents, as every layer's of a pass do, are there once.
//
// For launches that start at once, arrays go round a ring, each copied by itself; what recent calls
// brought is not copied again.
class CudaArguments {
 public:
  static constexpr std::size_t kArrayBytesMax = std::size_t{1} << 20;

  // Requires  the queue outlives it
  explicit CudaArguments(CudaQueue& queue);
  ~CudaArguments();
  CudaArguments(const CudaArguments&) = delete;
  CudaArguments& operator=(const CudaArguments&) = delete;

  // Valid for the operation that is enqueued next.
  template <class T>
  const T* on_device(std::span<const T> values) {
    const ByteView bytes = std::as_bytes(values);
    return reinterpret_cast<const T*>(queue_.gathers() ? in_list(bytes) : in_ring(bytes));
  }
  // For an operation that starts at once even where others are gathered.
  template <class T>
  const T* on_device_now(std::span<const T> values) {
    return reinterpret_cast<const T*>(in_ring(std::as_bytes(values)));
  }
  // To be called between operations: starts the list where its arrays might not leave room for
  // another operation's.
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
  std::unordered_map<const std::byte*, Entry> known_;  // by where they came from
  cudaEvent_t uploaded_ = nullptr;                     // the last list's arrays
};

}  // namespace edgedraft
