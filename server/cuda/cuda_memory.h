#pragma once

#include <cuda_runtime.h>

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>

#include "shared/base/bytes.h"
#include "shared/runtime/backend.h"

namespace edgedraft {

// Device memory from the device's pool, taken and released in the stream's order. 256-byte aligned.
class CudaBuffer final : public Buffer {
 public:
  // Uninitialised. Throws DeviceError, which says how much was free.
  CudaBuffer(cudaStream_t stream, std::uint64_t bytes_count);
  ~CudaBuffer() override;

  std::byte* data() const { return data_; }
  template <class T>
  T* as() const {
    return reinterpret_cast<T*>(data_);
  }
  std::uint64_t bytes_count() const { return bytes_count_; }

  // Whether its weight is in the kernels' own order, and of which matrix.
  bool packed = false;

 private:
  cudaStream_t stream_;
  std::byte* data_ = nullptr;
  std::uint64_t bytes_count_;
};

// Device memory that grows to the largest need seen, then stays.
class CudaScratch {
 public:
  explicit CudaScratch(cudaStream_t stream) : stream_(stream) {}

  template <class T>
  T* reserve(std::uint64_t count) {
    return reinterpret_cast<T*>(reserve_bytes(count * sizeof(T)));
  }

 private:
  std::byte* reserve_bytes(std::uint64_t bytes_count);

  cudaStream_t stream_;
  std::unique_ptr<CudaBuffer> buffer_;
};

// Host memory that the device copies from and to without a detour.
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

// Small arrays of a call (tokens, positions, masks, page tables) on the device. What recent calls
// brought is not copied again: every layer of a pass asks for the same, a sequence after another.
class CudaArguments {
 public:
  explicit CudaArguments(cudaStream_t stream);

  // Valid for work that is enqueued before the next few calls.
  template <class T>
  const T* on_device(std::span<const T> values) {
    return reinterpret_cast<const T*>(bytes_on_device(std::as_bytes(values)));
  }

 private:
  struct Entry {
    std::size_t offset;
    std::size_t bytes_count;
  };

  const std::byte* bytes_on_device(ByteView bytes);

  cudaStream_t stream_;
  PinnedMemory host_;
  CudaBuffer device_;
  std::size_t end_ = 0;
  std::array<Entry, 128> recent_{};
  std::size_t recent_next_ = 0;
};

// Copies weights to the device through two pieces of pinned memory in turn: one is filled from the
// mapped file while the other travels.
class CudaUploader {
 public:
  explicit CudaUploader(cudaStream_t stream);
  ~CudaUploader();
  CudaUploader(const CudaUploader&) = delete;
  CudaUploader& operator=(const CudaUploader&) = delete;

  // Calls `progress` with the size of every part that is under way.
  void copy(std::byte* to, ByteView from, const std::function<void(std::uint64_t)>& progress);

 private:
  struct Part {
    PinnedMemory memory;
    cudaEvent_t arrived = nullptr;
  };

  cudaStream_t stream_;
  std::array<Part, 2> parts_;
  std::size_t next_ = 0;
};

}  // namespace edgedraft
