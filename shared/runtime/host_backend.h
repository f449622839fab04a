#pragma once

#include <cstddef>
#include <memory>
#include <utility>

#include "shared/base/bytes.h"
#include "shared/runtime/backend.h"
#include "shared/runtime/memory_meter.h"

namespace edgedraft {

// Host memory: owned, 64-byte aligned and zeroed, or an alias of a constant.
class HostBuffer final : public Buffer {
 public:
  // Zeroed memory, counted by `meter`. Throws DeviceError if out of memory.
  explicit HostBuffer(std::uint64_t bytes_count, const std::shared_ptr<MemoryMeter>& meter = {});
  // Aliases `bytes` if aligned for reading in place, else copies them.
  explicit HostBuffer(ByteView bytes, const std::shared_ptr<MemoryMeter>& meter = {});
  ~HostBuffer() override;

  // Uninitialised memory for a reordered weight, in large pages if available. Throws as above.
  static std::unique_ptr<HostBuffer> for_packed(std::uint64_t bytes_count,
                                                const std::shared_ptr<MemoryMeter>& meter = {});

  // Bytes that each of the three requests from the system.
  static std::uint64_t taken_by(std::uint64_t bytes_count);
  static std::uint64_t taken_by(ByteView bytes);
  static std::uint64_t taken_by_packed(std::uint64_t bytes_count);

  // Requires  owned memory, not an alias
  std::byte* mutable_data();
  ByteView bytes() const { return bytes_; }
  // True if only the backend that wrote it can read it.
  bool is_packed() const { return packed_; }

 private:
  HostBuffer() = default;
  void allocate(std::uint64_t bytes_count);

  HeldMemory held_;
  void* allocation_ = nullptr;
  std::byte* data_ = nullptr;
  ByteView bytes_;
  bool constant_ = false;
  bool packed_ = false;
};

// Memory and reading for backends that compute in host memory.
class HostBackend : public Backend {
 public:
  explicit HostBackend(std::shared_ptr<MemoryMeter> meter = nullptr) : Backend(std::move(meter)) {}
  bool aliases_weights() const override { return true; }
  std::unique_ptr<Buffer> allocate(std::uint64_t floats) override;
  std::unique_ptr<Buffer> upload(ByteView bytes) override;
  std::unique_ptr<Buffer> upload_matrix(const MatrixBytes& matrix) override;
  void write(const Matrix& to, std::span<const float> from) override;
  void wait() override {}  // operations run synchronously
  void read(const Matrix& from, std::span<float> to) override;
  void read_cache(const CacheRows& from, std::span<float> to) override;

  // The first element; row r starts r * m.stride later. Checks that the matrix is inside its
  // buffer.
  static float* data(const Matrix& m);
  static std::byte* data(const CacheRows& rows);
  // The first row; null for an absent weight. Checks as above, and that it is not packed.
  static const std::byte* data(const Weight& w);
  static const float* f32_data(const Weight& w);
};

}  // namespace edgedraft
