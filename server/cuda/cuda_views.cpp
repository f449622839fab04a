#include "server/cuda/cuda_views.h"

namespace edgedraft::server {
namespace {

// Checks that the rows, with elements of `type`, lie in the buffer from `offset` on.
template <class M>
const CudaBuffer& checked_buffer(const M& m, DType type) {
  EDGEDRAFT_CHECK(m.buffer != nullptr);
  EDGEDRAFT_CHECK(m.stride >= m.cols);
  const auto& buffer = static_cast<const CudaBuffer&>(*m.buffer);
  const std::uint64_t extent = m.rows == 0 ? 0 : (m.rows - 1) * m.stride + m.cols;
  EDGEDRAFT_CHECK(cache_bytes(type, m.offset + extent) <= buffer.bytes_count());
  return buffer;
}

}  // namespace

float* device_data(const Matrix& m) {
  return checked_buffer(m, DType::f32).as<float>() + m.offset;
}

std::byte* device_data(const CacheRows& m) {
  return checked_buffer(m, m.type).data() + cache_bytes(m.type, m.offset);
}

const std::byte* device_data(const Weight& w) {
  if (!w) return nullptr;
  const auto& buffer = static_cast<const CudaBuffer&>(*w.buffer);
  EDGEDRAFT_CHECK(!buffer.packed);
  EDGEDRAFT_CHECK(row_bytes(w.type, w.cols).has_value());
  const std::size_t row = cuda::row_bytes(w.type, w.cols);
  EDGEDRAFT_CHECK(w.offset_bytes <= buffer.bytes_count());
  EDGEDRAFT_CHECK(w.rows == 0 || row <= (buffer.bytes_count() - w.offset_bytes) / w.rows);
  return buffer.data() + w.offset_bytes;
}

const float* device_floats(const Weight& w) {
  if (!w) return nullptr;
  EDGEDRAFT_CHECK(w.type == DType::f32);
  return reinterpret_cast<const float*>(device_data(w));
}

const std::byte* device_matrix(const Weight& w) {
  if (is_float(w.type)) {
    EDGEDRAFT_CHECK(w.offset_bytes % 16 == 0);
    return device_data(w);
  }
  const auto& buffer = static_cast<const CudaBuffer&>(*w.buffer);
  EDGEDRAFT_CHECK(buffer.packed);
  EDGEDRAFT_CHECK(w.offset_bytes == 0);
  EDGEDRAFT_CHECK(buffer.bytes_count() ==
                  w.experts *
                      std::uint64_t{cuda::packed_layout(w.type, w.rows / w.experts, w.cols).total});
  return buffer.data();
}

}  // namespace edgedraft::server
