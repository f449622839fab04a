#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>

#include "server/cuda/cuda_queue.h"
#include "shared/base/bytes.h"
#include "shared/runtime/backend.h"

namespace edgedraft::server {

// Device memory from the device's pool, allocated and released in stream order. 256-byte aligned.
class CudaBuffer final : public Buffer {
 public:
  // Uninitialised. Throws DeviceError with the free bytes.
  // Requires  the queue outlives it
  CudaBuffer(CudaQueue& queue, std::uint64_t bytes_count);
  ~CudaBuffer() override;

  std::byte* data() const { return data_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  std::uint64_t bytes_count() const { return bytes_count_; }

  // True if its weight is packed for the kernels; the matrix's shape follows.
  bool packed = false;

 private:
  CudaQueue& queue_;
  std::byte* data_ = nullptr;
  std::uint64_t bytes_count_;
};

// Device memory that grows to the largest request and never shrinks. Growing starts the recorded
// launches, so reserve it before uploading an operation's arguments.
class CudaScratch {
 public:
  explicit CudaScratch(CudaQueue& queue) : queue_(queue) {}

  template <class T>
  T* reserve(std::uint64_t count) {
    return reinterpret_cast<T*>(reserve_bytes(count * sizeof(T)));
  }
  std::uint64_t bytes_count() const { return buffer_ ? buffer_->bytes_count() : 0; }

 private:
  std::byte* reserve_bytes(std::uint64_t bytes_count);

  CudaQueue& queue_;
  std::unique_ptr<CudaBuffer> buffer_;
};

// Pinned host memory for direct device copies.
class PinnedMemory {
 public:
  explicit PinnedMemory(std::size_t bytes_count);
  ~PinnedMemory();
  PinnedMemory(const PinnedMemory&) = delete;
  PinnedMemory& operator=(const PinnedMemory&) = delete;

  std::byte* data() const { return data_; }
  std::size_t bytes_count() const { return bytes_count_; }

 private:
  std::byte* data_ = nullptr;
  std::size_t bytes_count_;
};

// Uploads weights through two pinned buffers in turn: one is filled from the mapped file while the
// other is copied.
class CudaUploader {
 public:
  explicit CudaUploader(CudaQueue& queue);
  ~CudaUploader();
  CudaUploader(const CudaUploader&) = delete;
  CudaUploader& operator=(const CudaUploader&) = delete;

  // Calls `progress` with the size of each part in flight.
  void copy(std::byte* to, ByteView from, const std::function<void(std::uint64_t)>& progress);

 private:
  struct Part {
    PinnedMemory memory;
    cudaEvent_t arrived = nullptr;
  };

  CudaQueue& queue_;
  std::array<Part, 2> parts_;
  std::size_t next_ = 0;
};

}  // namespace edgedraft::server
