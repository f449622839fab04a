#include "server/cuda/cuda_memory.h"

#include <algorithm>
#include <cstring>

#include "server/cuda/cuda_error.h"
#include "shared/base/check.h"

namespace edgedraft::server {
namespace {

constexpr std::size_t kUploadPartBytes = 16u << 20;

std::string mebibytes(std::uint64_t bytes_count) {
  return std::to_string(bytes_count >> 20) + " MiB";
}

DeviceError out_of_memory(std::uint64_t bytes_count) {
  std::string message = "CUDA: out of memory: " + mebibytes(bytes_count) + " requested";
  std::size_t free = 0;
  std::size_t total = 0;
  if (cudaMemGetInfo(&free, &total) == cudaSuccess) {
    message += ", " + mebibytes(free) + " of " + mebibytes(total) + " free";
  }
  return DeviceError(message +
                     "; lower --ctx, --max-sessions or --kv-memory, or use a smaller model");
}

}  // namespace

CudaBuffer::CudaBuffer(CudaQueue& queue, std::uint64_t bytes_count)
    : queue_(queue), bytes_count_(bytes_count) {
  void* memory = nullptr;
  const cudaError_t status =
      cudaMallocAsync(&memory, std::max<std::uint64_t>(bytes_count, 1), queue.stream());
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    throw out_of_memory(bytes_count);
  }
  try_cuda(status, "allocating memory");
  data_ = static_cast<std::byte*>(memory);
}

CudaBuffer::~CudaBuffer() {
  // Recorded launches may still use it.
  static_cast<void>(cudaFreeAsync(data_, queue_.stream_for_release()));
}

std::byte* CudaScratch::reserve_bytes(std::uint64_t bytes_count) {
  if (!buffer_ || buffer_->bytes_count() < bytes_count) {
    buffer_.reset();  // first, so that the pool may reuse the memory
    buffer_ = std::make_unique<CudaBuffer>(queue_, bytes_count);
  }
  return buffer_->data();
}

PinnedMemory::PinnedMemory(std::size_t bytes_count) : bytes_count_(bytes_count) {
  void* memory = nullptr;
  try_cuda(cudaMallocHost(&memory, bytes_count), "allocating pinned host memory");
  data_ = static_cast<std::byte*>(memory);
}

PinnedMemory::~PinnedMemory() {
  static_cast<void>(cudaFreeHost(data_));
}

CudaUploader::CudaUploader(CudaQueue& queue)
    : queue_(queue),
      parts_{Part{PinnedMemory(kUploadPartBytes)}, Part{PinnedMemory(kUploadPartBytes)}} {
  for (Part& part : parts_) {
    try_cuda(cudaEventCreateWithFlags(&part.arrived, cudaEventDisableTiming), "creating an event");
  }
}

CudaUploader::~CudaUploader() {
  static_cast<void>(cudaStreamSynchronize(queue_.raw()));
  for (const Part& part : parts_) {
    if (part.arrived != nullptr) static_cast<void>(cudaEventDestroy(part.arrived));
  }
}

void CudaUploader::copy(std::byte* to, ByteView from,
                        const std::function<void(std::uint64_t)>& progress) {
  const cudaStream_t stream = queue_.stream();
  for (std::size_t done = 0; done < from.size();) {
    Part& part = parts_[next_++ % parts_.size()];
    const ByteView piece = from.subspan(done, std::min(kUploadPartBytes, from.size() - done));
    try_cuda(cudaEventSynchronize(part.arrived), "uploading a weight");
    std::memcpy(part.memory.data(), piece.data(), piece.size());
    try_cuda(cudaMemcpyAsync(to + done, part.memory.data(), piece.size(), cudaMemcpyHostToDevice,
                             stream),
             "uploading a weight");
    try_cuda(cudaEventRecord(part.arrived, stream), "uploading a weight");
    done += piece.size();
    if (progress) progress(piece.size());
  }
}

}  // namespace edgedraft::server
