#include "server/cuda/cuda_memory.h"

#include <algorithm>
#include <cstring>

#include "server/cuda/cuda_error.h"
#include "shared/base/check.h"

namespace edgedraft {
namespace {

constexpr std::size_t kArgumentsBytes = 4u << 20;
constexpr std::size_t kArgumentAlignment = 256;
constexpr std::size_t kUploadPartBytes = 16u << 20;

std::string mebibytes(std::uint64_t bytes_count) {
  return std::to_string(bytes_count >> 20) + " MiB";
}

DeviceError out_of_memory(std::uint64_t bytes_count) {
  std::string message = "CUDA: out of memory: " + mebibytes(bytes_count) + " wanted";
  std::size_t free = 0;
  std::size_t total = 0;
  if (cudaMemGetInfo(&free, &total) == cudaSuccess) {
    message += ", " + mebibytes(free) + " of " + mebibytes(total) + " free";
  }
  return DeviceError(message +
                     ". Lower --ctx, --max-sessions or --kv-memory, or take a smaller model");
}

}  // namespace

CudaBuffer::CudaBuffer(cudaStream_t stream, std::uint64_t bytes_count)
    : stream_(stream), bytes_count_(bytes_count) {
  void* memory = nullptr;
  const cudaError_t status =
      cudaMallocAsync(&memory, std::max<std::uint64_t>(bytes_count, 1), stream);
  if (status == cudaErrorMemoryAllocation) {
    static_cast<void>(cudaGetLastError());
    throw out_of_memory(bytes_count);
  }
  try_cuda(status, "allocating memory");
  data_ = static_cast<std::byte*>(memory);
}

CudaBuffer::~CudaBuffer() {
  static_cast<void>(cudaFreeAsync(data_, stream_));
}

std::byte* CudaScratch::reserve_bytes(std::uint64_t bytes_count) {
  if (!buffer_ || buffer_->bytes_count() < bytes_count) {
    buffer_.reset();  // first, so that the pool may give the same memory again
    buffer_ = std::make_unique<CudaBuffer>(stream_, bytes_count);
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

CudaArguments::CudaArguments(cudaStream_t stream)
    : stream_(stream), host_(kArgumentsBytes), device_(stream, kArgumentsBytes) {}

const std::byte* CudaArguments::bytes_on_device(ByteView bytes) {
  EDGEDRAFT_CHECK(bytes.size() <= kArgumentsBytes / 4);
  for (const Entry& entry : recent_) {
    // What is older than half a round could be overwritten before it is used.
    if (end_ - entry.offset > kArgumentsBytes / 2) continue;
    if (entry.bytes_count == bytes.size() && !bytes.empty() &&
        std::memcmp(host_.data() + entry.offset, bytes.data(), bytes.size()) == 0) {
      return device_.data() + entry.offset;
    }
  }
  if (end_ + bytes.size() > kArgumentsBytes) {
    // Round again; what is still on its way must not be overwritten.
    try_cuda(cudaStreamSynchronize(stream_), "waiting for the device");
    end_ = 0;
    recent_ = {};
  }
  const Entry entry{.offset = end_, .bytes_count = bytes.size()};
  end_ += (bytes.size() + kArgumentAlignment - 1) / kArgumentAlignment * kArgumentAlignment;
  if (!bytes.empty()) std::memcpy(host_.data() + entry.offset, bytes.data(), bytes.size());
  try_cuda(cudaMemcpyAsync(device_.data() + entry.offset, host_.data() + entry.offset, bytes.size(),
                           cudaMemcpyHostToDevice, stream_),
           "copying a call's arguments");
  recent_[recent_next_++ % recent_.size()] = entry;
  return device_.data() + entry.offset;
}

CudaUploader::CudaUploader(cudaStream_t stream)
    : stream_(stream),
      parts_{Part{PinnedMemory(kUploadPartBytes)}, Part{PinnedMemory(kUploadPartBytes)}} {
  for (Part& part : parts_) {
    try_cuda(cudaEventCreateWithFlags(&part.arrived, cudaEventDisableTiming), "making an event");
  }
}

CudaUploader::~CudaUploader() {
  static_cast<void>(cudaStreamSynchronize(stream_));
  for (const Part& part : parts_) {
    if (part.arrived != nullptr) static_cast<void>(cudaEventDestroy(part.arrived));
  }
}

void CudaUploader::copy(std::byte* to, ByteView from,
                        const std::function<void(std::uint64_t)>& progress) {
  for (std::size_t done = 0; done < from.size();) {
    Part& part = parts_[next_++ % parts_.size()];
    const ByteView piece = from.subspan(done, std::min(kUploadPartBytes, from.size() - done));
    try_cuda(cudaEventSynchronize(part.arrived), "uploading a weight");
    std::memcpy(part.memory.data(), piece.data(), piece.size());
    try_cuda(cudaMemcpyAsync(to + done, part.memory.data(), piece.size(), cudaMemcpyHostToDevice,
                             stream_),
             "uploading a weight");
    try_cuda(cudaEventRecord(part.arrived, stream_), "uploading a weight");
    done += piece.size();
    if (progress) progress(piece.size());
  }
}

}  // namespace edgedraft
