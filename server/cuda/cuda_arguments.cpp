#include "server/cuda/cuda_arguments.h"

#include <cstring>

#include "server/cuda/cuda_error.h"
#include "shared/base/check.h"

namespace edgedraft::server {
namespace {

constexpr std::size_t kRingBytes = 4u << 20;
// Capacity of a list's arrays; one operation has at most three.
constexpr std::size_t kListBytes = 8u << 20;
constexpr std::size_t kListBytesFull = kListBytes - 4 * CudaArguments::kArrayBytesMax;
constexpr std::size_t kAlignment = 256;

}  // namespace

CudaArguments::CudaArguments(CudaQueue& queue)
    : queue_(queue),
      ring_host_(kRingBytes),
      ring_device_(queue, kRingBytes),
      list_host_(kListBytes),
      list_device_(queue, kListBytes) {
  try_cuda(cudaEventCreateWithFlags(&uploaded_, cudaEventDisableTiming), "creating an event");
  queue.set_prepare([this](cudaStream_t stream) { upload(stream); });
}

CudaArguments::~CudaArguments() {
  queue_.set_prepare({});
  static_cast<void>(cudaEventDestroy(uploaded_));
}

void CudaArguments::make_room() {
  if (list_end_ > kListBytesFull) queue_.start();
}

const std::byte* CudaArguments::in_list(ByteView bytes) {
  // A prefix of a stored array also matches.
  const auto known = known_.find(bytes.data());
  if (known != known_.end() && known->second.bytes_count >= bytes.size() &&
      std::memcmp(list_host_.data() + known->second.offset, bytes.data(), bytes.size()) == 0) {
    return list_device_.data() + known->second.offset;
  }
  const std::size_t at = add(bytes);
  known_[bytes.data()] = {.offset = at, .bytes_count = bytes.size()};
  return list_device_.data() + at;
}

std::size_t CudaArguments::add(ByteView bytes) {
  EDGEDRAFT_CHECK(bytes.size() <= kArrayBytesMax);
  if (list_end_ == 0) {
    // The previous list may still be in flight.
    queue_.choose_device();
    try_cuda(cudaEventSynchronize(uploaded_), "waiting for the device");
  }
  const std::size_t at = list_end_;
  EDGEDRAFT_CHECK(at + bytes.size() <= kListBytes);
  if (!bytes.empty()) std::memcpy(list_host_.data() + at, bytes.data(), bytes.size());
  // Rounded up, so that a table can grow a little without moving later arrays.
  list_end_ = at + (bytes.size() + kAlignment - 1) / kAlignment * kAlignment;
  return at;
}

void CudaArguments::upload(cudaStream_t stream) {
  const std::size_t bytes_count = list_end_;
  list_end_ = 0;
  known_.clear();
  if (bytes_count == 0) return;
  try_cuda(cudaMemcpyAsync(list_device_.data(), list_host_.data(), bytes_count,
                           cudaMemcpyHostToDevice, stream),
           "copying the arguments of a pass");
  try_cuda(cudaEventRecord(uploaded_, stream), "copying the arguments of a pass");
}

const std::byte* CudaArguments::in_ring(ByteView bytes) {
  EDGEDRAFT_CHECK(bytes.size() <= kArrayBytesMax);
  for (const Entry& entry : recent_) {
    // Entries older than half a round could be overwritten before use.
    if (ring_end_ - entry.offset > kRingBytes / 2) continue;
    if (entry.bytes_count == bytes.size() && !bytes.empty() &&
        std::memcmp(ring_host_.data() + entry.offset, bytes.data(), bytes.size()) == 0) {
      return ring_device_.data() + entry.offset;
    }
  }
  const cudaStream_t stream = queue_.stream();
  if (ring_end_ + bytes.size() > kRingBytes) {
    // The ring wraps; wait, so that copies in flight are not overwritten.
    try_cuda(cudaStreamSynchronize(stream), "waiting for the device");
    ring_end_ = 0;
    recent_ = {};
  }
  const Entry entry{.offset = ring_end_, .bytes_count = bytes.size()};
  ring_end_ += (bytes.size() + kAlignment - 1) / kAlignment * kAlignment;
  if (!bytes.empty()) std::memcpy(ring_host_.data() + entry.offset, bytes.data(), bytes.size());
  try_cuda(cudaMemcpyAsync(ring_device_.data() + entry.offset, ring_host_.data() + entry.offset,
                           bytes.size(), cudaMemcpyHostToDevice, stream),
           "copying the arguments of a call");
  recent_[recent_next_++ % recent_.size()] = entry;
  return ring_device_.data() + entry.offset;
}

}  // namespace edgedraft::server
