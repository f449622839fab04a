#include <algorithm>

#include "client/vulkan/memory.h"
#include "client/vulkan/scratch_sizes.h"
#include "client/vulkan/stream.h"
#include "client/vulkan/transfers.h"
#include "client/vulkan/vulkan_backend.h"
#include "shared/runtime/planning_backend.h"

namespace edgedraft::client {
namespace {

class VulkanPlan final : public PlanningBackend {
 public:
  VulkanPlan(const VulkanFeatures& used, DType kv_type)
      : PlanningBackend(nullptr),
        rounds_(used.integer_dot),
        kv_type_(kv_type),
        host_(meter(), vulkan::Transfers::kHostBytes + vulkan::Stream::kHostBytes) {}

  DType drafter_cache_type() const override { return kv_type_; }

 private:
  std::uint64_t taken_by(std::uint64_t bytes) const override {
    constexpr std::uint64_t kUnit = vulkan::Arena::kUnit;
    return std::max((bytes + kUnit - 1) / kUnit * kUnit, kUnit);
  }
  std::uint64_t taken_by(ByteView bytes) const override { return taken_by(bytes.size()); }
  // Integers and scales are stored separately, each aligned to a unit.
  std::uint64_t taken_by(const MatrixBytes& m) const override {
    return taken_by_table(m) + (vulkan::is_split(m.type) ? vulkan::Arena::kUnit : 0);
  }
  std::uint64_t taken_by_table(const MatrixBytes& m) const override {
    return taken_by(m.rows * vulkan::stored_row_bytes(m.type, m.cols));
  }
  void plan(const MatmulOp& op) override {
    if (!rounds_ || !vulkan::is_split(op.weight.type)) return;
    scratch_.reserve(*this, std::uint64_t{rows_max(op.x)} * sizeof(std::uint32_t) *
                                vulkan::quantized_row_words(op.x.cols));
  }
  void plan(const AttentionOp& op) override {
    const vulkan::AttentionParts parts(op.heads, op.keys.slots(), rows_max(op.q));
    if (parts.splits > 1) scratch_.reserve(*this, parts.bytes());
  }
  void plan(const GroupAttentionOp& /*op*/) override {}
  void plan(const TopKOp& op) override {
    const vulkan::TopKPlaces places(op.logits.rows, op.logits.cols, op.k);
    scratch_.reserve(*this, places.end * vulkan::TopKPlaces::kPairBytes);
  }
  void plan(const ArgmaxOp& op) override {
    const vulkan::ArgmaxPlaces places(op.logits.rows, op.logits.cols);
    scratch_.reserve(*this, places.end * vulkan::ArgmaxPlaces::kPairBytes);
  }
  void plan(const ConvolutionOp& /*op*/) override {}
  void plan(const DeltaRuleOp& op) override {
    scratch_.reserve(*this, rows_max(op.qkv) * sizeof(float) *
                                vulkan::delta_scratch_floats(op.key_cols(), op.value_heads));
  }
  void plan(const ExpertMatmulOp& op) override {
    if (!rounds_ || !vulkan::is_split(op.weight.type)) return;
    const bool is_per_pair = op.x.rows == op.y.rows;
    const std::uint64_t rows =
        std::uint64_t{rows_max(op.experts)} * (is_per_pair ? op.experts.cols : 1);
    scratch_.reserve(*this, rows * sizeof(std::uint32_t) * vulkan::quantized_row_words(op.x.cols));
  }

  bool rounds_;  // rounds activations of quantised matmuls to int8
  DType kv_type_;
  HeldMemory host_;
  Grown scratch_;
};

}  // namespace

Result<std::unique_ptr<Backend>> plan_vulkan_backend(const VulkanFeatures& used, DType kv_type) {
  return std::unique_ptr<Backend>(std::make_unique<VulkanPlan>(used, kv_type));
}

}  // namespace edgedraft::client
