#include <algorithm>

#include "shared/base/fast_cores.h"
#include "shared/runtime/cpu_memory.h"
#include "shared/runtime/expert_stacks.h"
#include "shared/runtime/host_backend.h"
#include "shared/runtime/planning_backend.h"

namespace edgedraft {
namespace {

class CpuPlan final : public PlanningBackend {
 public:
  explicit CpuPlan(const CpuBackendOptions& options)
      : PlanningBackend(options.meter),
        kernels_(cpu::best_kernels()),
        threads_(options.threads > 0 ? options.threads : fast_cores()),
        stacks_left_(expert_bytes_max(options.expert_bytes, *meter())),
        drafter_cache_type_(options.drafter_cache_type) {
    for (Grown& scratch : threads_) scratch.reserve(*this, kProductScratchFloats * sizeof(float));
  }

  DType drafter_cache_type() const override { return drafter_cache_type_; }
  bool takes_spaced_experts() const override { return true; }

 private:
  std::uint64_t taken_by(std::uint64_t bytes) const override { return HostBuffer::taken_by(bytes); }
  std::uint64_t taken_by(ByteView bytes) const override { return HostBuffer::taken_by(bytes); }
  std::uint64_t taken_by(const MatrixBytes& m) const override {
    if (m.experts == 1 && takes_tiles(kernels_, m.type, m.cols)) return taken_by(m.bytes);
    const std::uint64_t bytes =
        HostBuffer::taken_by_packed(packed_stack_bytes(m.type, m.rows, m.cols, m.experts));
    if (m.experts == 1) return bytes;
    const std::uint64_t taken = std::min(bytes, stacks_left_);
    stacks_left_ -= taken;
    return taken;
  }
  void plan(const MatmulOp& op) override {
    const std::uint32_t rows = rows_max(op.x);
    if (takes_tiles(kernels_, op.weight.type, op.x.cols)) {
      split_.reserve(*this, split_bytes(rows, op.x.cols));
    } else if (!is_float(op.weight.type)) {
      quantized_.reserve(*this, quantized_bytes(rows, op.x.cols));
    } else if (rows > 1) {
      interleaved_.reserve(*this, interleaved_bytes(rows, op.x.cols));
    }
  }
  void plan(const AttentionOp& op) override { plan_attention(op.heads); }
  void plan(const GroupAttentionOp& op) override { plan_attention(op.heads); }
  void plan_attention(const HeadShape& heads) {
    const std::size_t floats = cpu::attention_scratch_floats(heads_of(heads));
    for (Grown& scratch : threads_) scratch.reserve(*this, floats * sizeof(float));
  }
  void plan(const TopKOp& op) override {
    top_k_.reserve(*this, top_k_bytes(op.logits.rows, op.logits.cols));
  }
  void plan(const ArgmaxOp& /*op*/) override {}
  void plan(const ConvolutionOp& /*op*/) override {}
  void plan(const DeltaRuleOp& op) override {
    const std::size_t floats = cpu::delta_rule_scratch_floats(op.dim);
    for (Grown& scratch : threads_) scratch.reserve(*this, floats * sizeof(float));
  }

  void plan(const ExpertMatmulOp& op) override {
    const std::size_t rows = rows_max(op.experts);
    const std::size_t pairs = rows * op.experts.cols;
    gathered_.reserve(*this, gathered_bytes(op.weight.type, pairs, op.x.cols));
    if (is_float(op.weight.type)) {
      interleaved_.reserve(*this, interleaved_bytes(pairs, op.x.cols));
    } else {
      const bool is_per_pair = op.x.rows == op.y.rows;
      quantized_.reserve(*this, quantized_bytes(is_per_pair ? pairs : rows, op.x.cols));
    }
    for (Grown& scratch : threads_) {
      scratch.reserve(*this, (kProductScratchFloats + kExpertTileFloats) * sizeof(float));
    }
  }

  const cpu::Kernels& kernels_;
  std::vector<Grown> threads_;
  mutable std::uint64_t stacks_left_;  // of the bound on packed experts
  Grown quantized_;
  Grown interleaved_;
  Grown split_;
  Grown gathered_;
  Grown top_k_;
  DType drafter_cache_type_;
};

}  // namespace

std::unique_ptr<Backend> plan_cpu_backend(const CpuBackendOptions& options) {
  return std::make_unique<CpuPlan>(options);
}

}  // namespace edgedraft
