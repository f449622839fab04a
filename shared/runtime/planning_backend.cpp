#include "shared/runtime/planning_backend.h"

#include <algorithm>
#include <string>
#include <utility>

#include "shared/base/check.h"

namespace edgedraft {
namespace {

class PlannedBuffer final : public Buffer {
 public:
  PlannedBuffer(HeldMemory held, std::uint64_t bytes) : held_(std::move(held)), bytes_(bytes) {}

  std::uint64_t bytes() const { return bytes_; }

 private:
  HeldMemory held_;
  std::uint64_t bytes_;
};

}  // namespace

std::unique_ptr<Buffer> PlanningBackend::allocate(std::uint64_t floats) {
  const auto bytes = checked_mul(floats, sizeof(float));
  if (!bytes) throw DeviceError("out of memory: " + std::to_string(floats) + " floats requested");
  return std::make_unique<PlannedBuffer>(HeldMemory(meter(), taken_by(*bytes)), *bytes);
}

std::unique_ptr<Buffer> PlanningBackend::upload(ByteView bytes) {
  return std::make_unique<PlannedBuffer>(
      HeldMemory(meter(), taken_by(bytes), MemoryMeter::Use::weights), bytes.size());
}

std::unique_ptr<Buffer> PlanningBackend::upload_table(const MatrixBytes& table) {
  return std::make_unique<PlannedBuffer>(
      HeldMemory(meter(), taken_by_table(table), MemoryMeter::Use::weights), table.bytes.size());
}

std::unique_ptr<Buffer> PlanningBackend::upload_matrix(const MatrixBytes& matrix) {
  return std::make_unique<PlannedBuffer>(
      HeldMemory(meter(), taken_by(matrix), MemoryMeter::Use::weights), matrix.bytes.size());
}

std::uint32_t PlanningBackend::rows_max(const Matrix& m) {
  EDGEDRAFT_CHECK(m.buffer != nullptr && m.stride > 0);
  const std::uint64_t rows =
      static_cast<const PlannedBuffer&>(*m.buffer).bytes() / sizeof(float) / m.stride;
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(rows, kMaskRowsMax));
}

void PlanningBackend::Grown::reserve(const PlanningBackend& backend, std::uint64_t bytes) {
  if (bytes <= bytes_) return;
  held_ = {};
  held_ = HeldMemory(backend.meter(), backend.taken_by(bytes));
  bytes_ = bytes;
}

void PlanningBackend::read(const Matrix& /*from*/, std::span<float> to) {
  std::ranges::fill(to, 0.0f);
}
void PlanningBackend::read_cache(const CacheRows& /*from*/, std::span<float> to) {
  std::ranges::fill(to, 0.0f);
}

void PlanningBackend::top_k(const TopKOp& op) {
  plan(op);
  for (std::uint32_t i = 0; i < op.tokens.size(); ++i) {
    op.tokens[i] = i % op.k;
    op.log_probs[i] = -1.0f - static_cast<float>(i % op.k);
  }
}

void PlanningBackend::argmax(const ArgmaxOp& op) {
  plan(op);
  std::ranges::fill(op.tokens, 0u);
}

}  // namespace edgedraft
