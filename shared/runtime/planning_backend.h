#pragma once

#include <cstdint>
#include <memory>

#include "shared/runtime/backend.h"
#include "shared/runtime/memory_meter.h"

namespace edgedraft {

// A backend without memory that computes nothing: it tells its meter what another one would take
// for the same calls, so that what a model needs is known before any of it is loaded, by the code
// that loads it. Reads give zeros, choices the first tokens that there are.
class PlanningBackend : public Backend {
 public:
  using Backend::Backend;

  std::string_view name() const override { return "plan"; }
  bool keeps_numbers() const override { return false; }
  std::unique_ptr<Buffer> allocate(std::uint64_t floats) override;
  std::unique_ptr<Buffer> upload(ByteView bytes) override;
  std::unique_ptr<Buffer> upload_matrix(const MatrixBytes& matrix) override;
  void write(const Matrix& /*to*/, std::span<const float> /*from*/) override {}
  void wait() override {}
  void read(const Matrix& from, std::span<float> to) override;
  void read_cache(const CacheRows& from, std::span<float> to) override;
  void embed(const EmbedOp& /*op*/) override {}
  void rms_norm(const RmsNormOp& /*op*/) override {}
  void matmul(const MatmulOp& op) override { plan(op); }
  void rope(const RopeOp& /*op*/) override {}
  void store(const StoreOp& /*op*/) override {}
  void attention(const AttentionOp& op) override { plan(op); }
  void group_attention(const GroupAttentionOp& op) override { plan(op); }
  void swiglu(const SwigluOp& /*op*/) override {}
  void compact(const CompactOp& /*op*/) override {}
  void gather_layers(const GatherLayersOp& /*op*/) override {}
  void group_mean(const GroupMeanOp& /*op*/) override {}
  void top_k(const TopKOp& op) override;
  void argmax(const ArgmaxOp& op) override;

 protected:
  // What is asked of the system for so many bytes of intermediate rows or caches, for a constant,
  // and for a weight.
  virtual std::uint64_t taken_by(std::uint64_t bytes) const = 0;
  virtual std::uint64_t taken_by(ByteView bytes) const = 0;
  virtual std::uint64_t taken_by(const MatrixBytes& matrix) const = 0;
  // What calls need beside their operands.
  virtual void plan(const MatmulOp& op) = 0;
  virtual void plan(const AttentionOp& op) = 0;
  virtual void plan(const GroupAttentionOp& op) = 0;
  virtual void plan(const TopKOp& op) = 0;
  virtual void plan(const ArgmaxOp& op) = 0;

  // How many rows such calls may have: as many as the memory of `m`, and no more than one call
  // takes. A plan is then right for wider calls than were made to make it.
  static std::uint32_t rows_max(const Matrix& m);

  // Memory that grows to its largest use, then stays.
  class Grown {
   public:
    void reserve(const PlanningBackend& backend, std::uint64_t bytes);

   private:
    std::uint64_t bytes_ = 0;
    HeldMemory held_;
  };
};

// What make_cpu_backend would hold.
std::unique_ptr<Backend> plan_cpu_backend(const CpuBackendOptions& options);

}  // namespace edgedraft
