#pragma once

#include <cstdint>
#include <memory>

#include "shared/runtime/backend.h"
#include "shared/runtime/memory_meter.h"

namespace edgedraft {

// A backend without memory or computation that counts what another backend would take for the same
// calls. So the loading code itself predicts a model's memory before anything is loaded. Reads
// return zeros, choices the first tokens.
class PlanningBackend : public Backend {
 public:
  using Backend::Backend;

  std::string_view name() const override { return "plan"; }
  bool keeps_numbers() const override { return false; }
  std::unique_ptr<Buffer> allocate(std::uint64_t floats) override;
  std::unique_ptr<Buffer> upload(ByteView bytes) override;
  std::unique_ptr<Buffer> upload_table(const MatrixBytes& table) override;
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
  void gate(const GateOp& /*op*/) override {}
  void compact(const CompactOp& /*op*/) override {}
  void gather_layers(const GatherLayersOp& /*op*/) override {}
  void group_mean(const GroupMeanOp& /*op*/) override {}
  void top_k(const TopKOp& op) override;
  void argmax(const ArgmaxOp& op) override;
  void scale(const ScaleOp& /*op*/) override {}
  void soft_cap(const SoftCapOp& /*op*/) override {}
  void convolve(const ConvolutionOp& op) override { plan(op); }
  void delta_rule(const DeltaRuleOp& op) override { plan(op); }
  void route(const RouteOp& /*op*/) override {}
  void expert_matmul(const ExpertMatmulOp& op) override { plan(op); }
  void mix(const MixOp& /*op*/) override {}

 protected:
  // Bytes requested from the system for intermediate rows or caches, for a constant, and for a
  // weight.
  virtual std::uint64_t taken_by(std::uint64_t bytes) const = 0;
  virtual std::uint64_t taken_by(ByteView bytes) const = 0;
  virtual std::uint64_t taken_by(const MatrixBytes& matrix) const = 0;
  virtual std::uint64_t taken_by_table(const MatrixBytes& table) const {
    return taken_by(table.bytes);
  }
  // Adds the memory of such a call beside its operands.
  virtual void plan(const MatmulOp& op) = 0;
  virtual void plan(const AttentionOp& op) = 0;
  virtual void plan(const GroupAttentionOp& op) = 0;
  virtual void plan(const TopKOp& op) = 0;
  virtual void plan(const ArgmaxOp& op) = 0;
  virtual void plan(const ConvolutionOp& op) = 0;
  virtual void plan(const DeltaRuleOp& op) = 0;
  virtual void plan(const ExpertMatmulOp& op) = 0;

  // Maximum rows of such a call: those that fit into `m`, up to the limit per call. The plan then
  // also holds for wider calls than were made.
  static std::uint32_t rows_max(const Matrix& m);

  // Memory that grows to its largest use and is never returned.
  class Grown {
   public:
    void reserve(const PlanningBackend& backend, std::uint64_t bytes);

   private:
    std::uint64_t bytes_ = 0;
    HeldMemory held_;
  };
};

// Plans the memory of make_cpu_backend.
std::unique_ptr<Backend> plan_cpu_backend(const CpuBackendOptions& options);

}  // namespace edgedraft
