#include "shared/runtime/cpu_backend.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/ops.h"
#include "shared/base/check.h"
#include "shared/runtime/host_backend.h"
#include "shared/runtime/op_checks.h"
#include "shared/runtime/thread_pool.h"

namespace edgedraft {
namespace {

// Below this many steps (a multiplication and an addition, or moving a number) one thread is faster
// than waking another.
constexpr std::uint64_t kParallelStepsMin = 128 * 1024;
// What e^x costs, in steps.
constexpr std::uint64_t kExpSteps = 8;

cpu::WeightType weight_type(DType type) {
  switch (type) {
    case DType::f32:
      return cpu::WeightType::f32;
    case DType::f16:
      return cpu::WeightType::f16;
    case DType::bf16:
      return cpu::WeightType::bf16;
    case DType::q8_0:
      return cpu::WeightType::q8_0;
    case DType::q4_0:
      return cpu::WeightType::q4_0;
    case DType::q4_k:
      return cpu::WeightType::q4_k;
    case DType::q5_k:
      return cpu::WeightType::q5_k;
    case DType::q6_k:
      return cpu::WeightType::q6_k;
  }
  check_failed("no such element type", BOOST_CURRENT_LOCATION);
}

cpu::Heads heads_of(const HeadShape& heads) {
  return {.kv_heads = heads.kv_heads,
          .group = heads.query_heads / heads.kv_heads,
          .head_dim = heads.head_dim};
}

// An operation's items (kernels/cpu/ops.h), in what multiples threads may get them, and its cost.
struct Extent {
  std::size_t items;
  std::size_t grain;
  std::uint64_t steps;
};

class CpuBackend final : public HostBackend {
 public:
  CpuBackend(const cpu::Kernels& kernels, const CpuBackendOptions& options)
      : kernels_(kernels), pool_(options.threads), scratch_(pool_.thread_count()) {
    reserve_scratch(cpu::kMatmulScratchFloats);
  }

  std::string_view name() const override { return "cpu"; }

  void embed(const EmbedOp& op) override {
    check_op(op);
    const cpu::EmbedArgs args{.type = weight_type(op.table.type),
                              .table = data(op.table),
                              .tokens = op.tokens.data(),
                              .cols = op.y.cols,
                              .y = rows(op.y)};
    run(kernels_.embed, args, by_rows(op.y));
  }

  void rms_norm(const RmsNormOp& op) override {
    check_op(op);
    const cpu::RmsNormArgs args{.x = const_rows(op.x),
                                .weight = f32_data(op.weight),
                                .y = rows(op.y),
                                .cols = op.x.cols,
                                .epsilon = op.epsilon};
    run(kernels_.rms_norm, args, by_rows(op.x));
  }

  void matmul(const MatmulOp& op) override {
    check_op(op);
    const cpu::MatmulArgs args{.x = const_rows(op.x),
                               .type = weight_type(op.weight.type),
                               .weight = data(op.weight),
                               .bias = f32_data(op.bias),
                               .y = rows(op.y),
                               .rows = op.x.rows,
                               .inputs = op.x.cols,
                               .accumulate = op.into == MatmulOp::Into::accumulate};
    // A cache line of outputs, so that no two threads write to the same.
    run(kernels_.matmul, args,
        {.items = op.y.cols,
         .grain = 16,
         .steps = std::uint64_t{op.x.rows} * op.x.cols * op.y.cols});
  }

  void rope(const RopeOp& op) override {
    check_op(op);
    const cpu::RopeArgs args{.x = rows(op.x),
                             .positions = op.positions.data(),
                             .cos_sin = const_rows(op.cos_sin),
                             .cols = op.x.cols,
                             .head_dim = op.head_dim,
                             .pairs = op.style == RopeStyle::pairs};
    run(kernels_.rope, args, by_rows(op.x));
  }

  void attention(const AttentionOp& op) override {
    check_op(op);
    static_assert(sizeof(AncestorMask) == cpu::kMaskWords * sizeof(std::uint64_t));
    const cpu::Heads heads = heads_of(op.heads);
    const cpu::AttentionArgs args{.q = const_rows(op.q),
                                  .keys = const_rows(op.keys),
                                  .values = const_rows(op.values),
                                  .rows = op.q.rows,
                                  .prefix = op.prefix,
                                  .masks = op.masks.empty() ? nullptr : op.masks[0].bits.data(),
                                  .heads = heads,
                                  .y = rows(op.y)};
    reserve_scratch(cpu::attention_scratch_floats(heads));
    run(kernels_.attention, args,
        {.items = cpu::attention_items(op.q.rows, heads),
         .grain = 1,
         .steps = 2 * std::uint64_t{op.prefix + op.q.rows} * op.q.rows * op.q.cols});
  }

  void group_attention(const GroupAttentionOp& op) override {
    check_op(op);
    const cpu::Heads heads = heads_of(op.heads);
    const cpu::GroupAttentionArgs args{.q = const_rows(op.q),
                                       .k = const_rows(op.k),
                                       .v = const_rows(op.v),
                                       .group_rows = op.group_rows,
                                       .heads = heads,
                                       .y = rows(op.y)};
    reserve_scratch(cpu::attention_scratch_floats(heads));
    run(kernels_.group_attention, args,
        {.items = op.q.rows / op.group_rows * heads.kv_heads,
         .grain = 1,
         .steps = 2 * std::uint64_t{op.group_rows} * op.q.rows * op.q.cols});
  }

  void swiglu(const SwigluOp& op) override {
    check_op(op);
    const cpu::SwigluArgs args{
        .gate = const_rows(op.gate), .up = const_rows(op.up), .y = rows(op.y), .cols = op.y.cols};
    run(kernels_.swiglu, args, by_rows(op.y, kExpSteps));
  }

  void compact(const CompactOp& op) override {
    check_op(op);
    const cpu::CompactArgs args{.cache = rows(op.cache),
                                .first = op.first,
                                .slots = op.slots.data(),
                                .slot_count = op.slots.size()};
    run(kernels_.compact, args,
        {.items = op.cache.cols, .grain = 16, .steps = op.slots.size() * op.cache.cols});
  }

  void gather_layers(const GatherLayersOp& op) override {
    check_op(op);
    keys_.clear();
    values_.clear();
    for (const Matrix& keys : op.keys) keys_.push_back(const_rows(keys));
    for (const Matrix& values : op.values) values_.push_back(const_rows(values));
    const cpu::GatherLayersArgs args{.keys = keys_.data(),
                                     .values = values_.data(),
                                     .layers = keys_.size(),
                                     .slots = op.slots.data(),
                                     .heads = heads_of(op.heads),
                                     .pairs = op.style == RopeStyle::pairs,
                                     .y = rows(op.y)};
    run(kernels_.gather_layers, args,
        {.items = op.slots.size(), .grain = 1, .steps = std::uint64_t{op.y.rows} * op.y.cols});
  }

  void group_mean(const GroupMeanOp& op) override {
    check_op(op);
    const cpu::GroupMeanArgs args{
        .x = const_rows(op.x), .group_rows = op.group_rows, .cols = op.x.cols, .y = rows(op.y)};
    run(kernels_.group_mean, args, by_rows(op.y, op.group_rows));
  }

  void top_k(const TopKOp& op) override {
    check_op(op);
    const cpu::TopKArgs args{.logits = const_rows(op.logits),
                             .cols = op.logits.cols,
                             .k = op.k,
                             .tokens = op.tokens.data(),
                             .log_probs = op.log_probs.data()};
    run(kernels_.top_k, args, by_rows(op.logits, kExpSteps));
  }

  void argmax(const ArgmaxOp& op) override {
    check_op(op);
    const cpu::ArgmaxArgs args{
        .logits = const_rows(op.logits), .cols = op.logits.cols, .tokens = op.tokens.data()};
    run(kernels_.argmax, args, by_rows(op.logits));
  }

 private:
  static cpu::Rows rows(const Matrix& m) { return {data(m), m.stride}; }
  static cpu::ConstRows const_rows(const Matrix& m) { return {data(m), m.stride}; }

  static Extent by_rows(const Matrix& m, std::uint64_t steps_a_number = 1) {
    return {.items = m.rows, .grain = 1, .steps = std::uint64_t{m.rows} * m.cols * steps_a_number};
  }

  // Grows to the largest operation seen, then stays.
  void reserve_scratch(std::size_t floats) {
    if (floats <= scratch_floats_) return;
    for (auto& memory : scratch_) memory = std::make_unique<HostBuffer>(floats * sizeof(float));
    scratch_floats_ = floats;
  }

  float* scratch(std::size_t thread) {
    return reinterpret_cast<float*>(scratch_[thread]->mutable_data());
  }

  template <class Args>
  void run(void (*kernel)(const Args&, const cpu::Work&), const Args& args, const Extent& extent) {
    if (extent.steps < kParallelStepsMin) {
      kernel(args, {.begin = 0, .end = extent.items, .scratch = scratch(0)});
      return;
    }
    pool_.run(extent.items, extent.grain,
              [&](std::size_t begin, std::size_t end, std::size_t share) {
                kernel(args, {.begin = begin, .end = end, .scratch = scratch(share)});
              });
  }

  const cpu::Kernels& kernels_;
  ThreadPool pool_;
  std::vector<std::unique_ptr<HostBuffer>> scratch_;  // a share each
  std::size_t scratch_floats_ = 0;
  std::vector<cpu::ConstRows> keys_;  // of gather_layers, kept so that calls do not allocate
  std::vector<cpu::ConstRows> values_;
};

}  // namespace

std::unique_ptr<Backend> make_cpu_backend_with(const cpu::Kernels& kernels,
                                               const CpuBackendOptions& options) {
  return std::make_unique<CpuBackend>(kernels, options);
}

std::unique_ptr<Backend> make_cpu_backend(const CpuBackendOptions& options) {
  return make_cpu_backend_with(cpu::best_kernels(), options);
}

}  // namespace edgedraft
