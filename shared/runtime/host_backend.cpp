#include "shared/runtime/host_backend.h"

#include <algorithm>
#include <cstdlib>
#include <cstring>
#include <limits>
#include <string>

#if defined(__linux__)
#include <sys/mman.h>
#endif

#include "shared/base/check.h"

namespace edgedraft {
namespace {

constexpr std::size_t kAlignmentBytes = 64;  // a cache line, and the widest vector register

constexpr std::size_t kLargePageBytes = std::size_t{2} << 20;

DeviceError out_of_memory(std::uint64_t bytes_count) {
  return DeviceError("out of memory: " + std::to_string(bytes_count) + " bytes requested");
}

std::uintptr_t address(const void* p) {
  return reinterpret_cast<std::uintptr_t>(p);
}

bool is_read_in_place(ByteView bytes) {
  return address(bytes.data()) % alignof(float) == 0;
}

std::uint64_t packed_alignment(std::uint64_t bytes_count) {
  return bytes_count >= kLargePageBytes ? kLargePageBytes : kAlignmentBytes;
}

}  // namespace

std::uint64_t HostBuffer::taken_by(std::uint64_t bytes_count) {
  return bytes_count + kAlignmentBytes;
}

std::uint64_t HostBuffer::taken_by(ByteView bytes) {
  return is_read_in_place(bytes) ? 0 : taken_by(bytes.size());
}

std::uint64_t HostBuffer::taken_by_packed(std::uint64_t bytes_count) {
  const std::uint64_t alignment = packed_alignment(bytes_count);
  return (bytes_count + alignment - 1) / alignment * alignment;
}

HostBuffer::HostBuffer(std::uint64_t bytes_count, const std::shared_ptr<MemoryMeter>& meter)
    : held_(meter, taken_by(bytes_count)) {
  allocate(bytes_count);
}

HostBuffer::HostBuffer(ByteView bytes, const std::shared_ptr<MemoryMeter>& meter)
    : held_(meter, taken_by(bytes), MemoryMeter::Use::weights), constant_(true) {
  if (is_read_in_place(bytes)) {
    bytes_ = bytes;
    return;
  }
  allocate(bytes.size());
  std::memcpy(data_, bytes.data(), bytes.size());
}

std::unique_ptr<HostBuffer> HostBuffer::for_packed(std::uint64_t bytes_count,
                                                   const std::shared_ptr<MemoryMeter>& meter) {
  auto buffer = std::unique_ptr<HostBuffer>(new HostBuffer);
  buffer->packed_ = true;
  if (bytes_count <= std::numeric_limits<std::size_t>::max() - kLargePageBytes) {
    const std::uint64_t taken = taken_by_packed(bytes_count);
    buffer->held_ = HeldMemory(meter, taken, MemoryMeter::Use::weights);
    buffer->allocation_ =
        std::aligned_alloc(packed_alignment(bytes_count), static_cast<std::size_t>(taken));
  }
  if (buffer->allocation_ == nullptr) throw out_of_memory(bytes_count);
#if defined(__linux__)
  // Advice only: if ignored, small pages are used.
  if (bytes_count >= kLargePageBytes)
    madvise(buffer->allocation_, static_cast<std::size_t>(bytes_count), MADV_HUGEPAGE);
#endif
  buffer->data_ = static_cast<std::byte*>(buffer->allocation_);
  buffer->bytes_ = {buffer->data_, static_cast<std::size_t>(bytes_count)};
  return buffer;
}

HostBuffer::~HostBuffer() {
  std::free(allocation_);
}

void HostBuffer::allocate(std::uint64_t bytes_count) {
  if (bytes_count <= std::numeric_limits<std::size_t>::max() - kAlignmentBytes) {
    // calloc, not aligned_alloc: large blocks come zeroed from the system, so a cache only costs
    // the memory that it touches.
    allocation_ = std::calloc(1, static_cast<std::size_t>(bytes_count) + kAlignmentBytes);
  }
  if (allocation_ == nullptr) throw out_of_memory(bytes_count);
  const std::size_t skip =
      (kAlignmentBytes - address(allocation_) % kAlignmentBytes) % kAlignmentBytes;
  data_ = static_cast<std::byte*>(allocation_) + skip;
  bytes_ = {data_, static_cast<std::size_t>(bytes_count)};
}

std::byte* HostBuffer::mutable_data() {
  EDGEDRAFT_CHECK(!constant_);
  return data_;
}

std::unique_ptr<Buffer> HostBackend::allocate(std::uint64_t floats) {
  const auto bytes_count = checked_mul(floats, sizeof(float));
  if (!bytes_count)
    throw DeviceError("out of memory: " + std::to_string(floats) + " floats requested");
  return std::make_unique<HostBuffer>(*bytes_count, meter());
}

std::unique_ptr<Buffer> HostBackend::upload(ByteView bytes) {
  return std::make_unique<HostBuffer>(bytes, meter());
}

std::unique_ptr<Buffer> HostBackend::upload_matrix(const MatrixBytes& matrix) {
  return upload(matrix.bytes);
}

void HostBackend::write(const Matrix& to, std::span<const float> from) {
  EDGEDRAFT_CHECK(from.size() == std::size_t{to.rows} * to.cols);
  float* row = data(to);
  for (std::uint32_t r = 0; r < to.rows; ++r, row += to.stride) {
    std::copy_n(&from[std::size_t{r} * to.cols], to.cols, row);
  }
}

void HostBackend::read(const Matrix& from, std::span<float> to) {
  EDGEDRAFT_CHECK(to.size() == std::size_t{from.rows} * from.cols);
  const float* row = data(from);
  for (std::uint32_t r = 0; r < from.rows; ++r, row += from.stride) {
    std::copy_n(row, from.cols, &to[std::size_t{r} * from.cols]);
  }
}

void HostBackend::read_cache(const CacheRows& from, std::span<float> to) {
  EDGEDRAFT_CHECK(to.size() == std::size_t{from.rows} * from.cols);
  const std::byte* rows = data(from);
  for (std::uint32_t r = 0; r < from.rows; ++r) {
    dequantize_row(from.type,
                   {rows + cache_bytes(from.type, r * from.stride),
                    static_cast<std::size_t>(cache_bytes(from.type, from.cols))},
                   to.subspan(std::size_t{r} * from.cols, from.cols));
  }
}

float* HostBackend::data(const Matrix& m) {
  EDGEDRAFT_CHECK(m.buffer != nullptr);
  EDGEDRAFT_CHECK(m.stride >= m.cols);
  auto& buffer = static_cast<HostBuffer&>(*m.buffer);
  const std::uint64_t extent = m.rows == 0 ? 0 : (m.rows - 1) * m.stride + m.cols;
  EDGEDRAFT_CHECK(m.offset + extent <= buffer.bytes().size() / sizeof(float));
  return reinterpret_cast<float*>(buffer.mutable_data()) + m.offset;
}

std::byte* HostBackend::data(const CacheRows& rows) {
  EDGEDRAFT_CHECK(rows.buffer != nullptr);
  EDGEDRAFT_CHECK(rows.stride >= rows.cols);
  auto& buffer = static_cast<HostBuffer&>(*rows.buffer);
  const std::uint64_t extent = rows.rows == 0 ? 0 : (rows.rows - 1) * rows.stride + rows.cols;
  EDGEDRAFT_CHECK(cache_bytes(rows.type, rows.offset + extent) <= buffer.bytes().size());
  return buffer.mutable_data() + cache_bytes(rows.type, rows.offset);
}

const std::byte* HostBackend::data(const Weight& w) {
  if (!w) return nullptr;
  const auto& buffer = static_cast<const HostBuffer&>(*w.buffer);
  EDGEDRAFT_CHECK(!buffer.is_packed());
  const ByteView bytes = buffer.bytes();
  const auto row = row_bytes(w.type, w.cols);
  EDGEDRAFT_CHECK(row.has_value());
  EDGEDRAFT_CHECK(w.offset_bytes <= bytes.size());
  EDGEDRAFT_CHECK(w.rows == 0 || *row <= (bytes.size() - w.offset_bytes) / w.rows);
  return bytes.data() + w.offset_bytes;
}

const float* HostBackend::f32_data(const Weight& w) {
  EDGEDRAFT_CHECK(!w || w.type == DType::f32);
  EDGEDRAFT_CHECK(w.offset_bytes % alignof(float) == 0);
  return reinterpret_cast<const float*>(data(w));
}

}  // namespace edgedraft
