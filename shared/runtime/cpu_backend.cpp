#include "shared/runtime/cpu_backend.h"

#include <algorithm>
#include <vector>

#include "kernels/cpu/experts.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/packed.h"
#include "shared/base/check.h"
#include "shared/runtime/cpu_expert_products.h"
#include "shared/runtime/cpu_products.h"
#include "shared/runtime/cpu_recurrent.h"
#include "shared/tensor/coded_blocks.h"

namespace edgedraft {
namespace {

class CpuBackend final : public HostBackend, CpuPart {
 public:
  CpuBackend(const cpu::Kernels& kernels, const CpuBackendOptions& options)
      : HostBackend(options.meter),
        CpuPart(kernels, team_),
        team_(options.threads, meter()),
        products_(kernels, team_),
        experts_(kernels, team_, products_,
                 std::make_shared<ExpertStacks>(meter(),
                                                expert_bytes_max(options.expert_bytes, *meter()))),
        recurrent_(kernels, team_),
        drafter_cache_type_(options.drafter_cache_type) {}

  std::string_view name() const override { return "cpu"; }
  DType drafter_cache_type() const override { return drafter_cache_type_; }
  bool takes_spaced_experts() const override { return true; }

  void embed(const EmbedOp& op) override {
    check_op(op);
    if (!is_writable(op.table.type)) return embed_rows(op);
    const cpu::EmbedArgs args{.type = op.table.type,
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
                                .groups = op.x.cols / op.weight.cols,
                                .cols = op.weight.cols,
                                .epsilon = op.epsilon,
                                .accumulate = op.into == Into::accumulate};
    run(kernels_.rms_norm, args, by_rows(op.x));
  }

  std::unique_ptr<Buffer> upload_matrix(const MatrixBytes& matrix) override {
    const std::size_t experts = matrix.experts;
    if (experts == 1 && takes_tiles(kernels_, matrix.type, matrix.cols)) {
      return upload(matrix.bytes);
    }
    EDGEDRAFT_CHECK(experts > 0 && matrix.rows % experts == 0);
    const auto row = row_bytes(matrix.type, matrix.cols);
    EDGEDRAFT_CHECK(row.has_value());
    const std::uint64_t step = matrix.expert_step();
    const std::uint64_t rows = (experts - 1) * step + matrix.rows / experts;
    EDGEDRAFT_CHECK(matrix.bytes.size() / *row >= rows && matrix.bytes.size() % *row == 0);
    EDGEDRAFT_CHECK(matrix.is_spaced || matrix.bytes.size() / *row == rows);
    cpu::PackArgs args{.type = matrix.type,
                       .weight = matrix.bytes.data(),
                       .outputs = matrix.rows / experts,
                       .inputs = matrix.cols,
                       .signed_bytes = kernels_.signed_bytes,
                       .panels = nullptr};
    if (experts > 1) return experts_.stacks().add(args, experts, step * *row);
    auto buffer =
        HostBuffer::for_packed(cpu::packed_bytes(matrix.type, matrix.rows, matrix.cols), meter());
    args.panels = buffer->mutable_data();
    threads_.pool().run(
        cpu::panel_count(args.outputs), 1,
        [&](std::size_t begin, std::size_t end, std::size_t) { pack_matrix(args, begin, end); });
    return buffer;
  }

  void matmul(const MatmulOp& op) override { matmuls({&op, 1}); }
  void matmuls(std::span<const MatmulOp> ops) override { products_.matmuls(ops); }

  void rope(const RopeOp& op) override {
    check_op(op);
    if (op.rotated == 0) return;
    const cpu::RopeArgs args{.x = rows(op.x),
                             .positions = op.positions.data(),
                             .cos_sin = const_rows(op.cos_sin),
                             .cols = op.x.cols,
                             .head_dim = op.head_dim,
                             .rotated = op.rotated,
                             .pairs = op.style == RopeStyle::pairs};
    run(kernels_.rope, args, by_rows(op.x));
  }

  void store(const StoreOp& op) override {
    check_op(op);
    const cpu::StoreArgs args{.x = const_rows(op.x),
                              .cache = cache(op.cache),
                              .pages = pages(op.cache),
                              .first = op.first,
                              .cols = op.x.cols};
    run(kernels_.store, args, by_rows(op.x));
  }

  void attention(const AttentionOp& op) override {
    check_op(op);
    static_assert(sizeof(AncestorMask) == cpu::kMaskWords * sizeof(std::uint64_t));
    const cpu::Heads heads = heads_of(op.heads);
    const cpu::AttentionArgs args{.q = const_rows(op.q),
                                  .keys = const_cache(op.keys),
                                  .values = const_cache(op.values),
                                  .pages = pages(op.keys),
                                  .rows = op.q.rows,
                                  .prefix = op.prefix,
                                  .masks = op.masks.empty() ? nullptr : op.masks[0].bits.data(),
                                  .heads = heads,
                                  .y = rows(op.y),
                                  .scale = op.scale,
                                  .window = op.window,
                                  .positions = op.positions.data(),
                                  .sinks = f32_data(op.sinks)};
    const std::uint64_t seen = op.window != 0 ? std::min(op.prefix, op.window) : op.prefix;
    threads_.reserve_scratch(cpu::attention_scratch_floats(heads));
    run(kernels_.attention, args,
        {.items = cpu::attention_items(op.q.rows, heads),
         .grain = 1,
         .steps = 2 * (seen + op.q.rows) * op.q.rows * op.q.cols});
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
    threads_.reserve_scratch(cpu::attention_scratch_floats(heads));
    run(kernels_.group_attention, args,
        {.items = op.q.rows / op.group_rows * heads.kv_heads,
         .grain = 1,
         .steps = 2 * std::uint64_t{op.group_rows} * op.q.rows * op.q.cols});
  }

  void gate(const GateOp& op) override {
    check_op(op);
    const cpu::GateArgs args{.gate = const_rows(op.gate),
                             .up = const_rows(op.up),
                             .y = rows(op.y),
                             .cols = op.y.cols,
                             .one_gate = op.gate.cols == 1,
                             .activation = op.activation};
    run(kernels_.gate, args, by_rows(op.y, kExpSteps));
  }

  void compact(const CompactOp& op) override {
    check_op(op);
    const cpu::CompactArgs args{.cache = cache(op.cache),
                                .pages = pages(op.cache),
                                .first = op.first,
                                .slots = op.slots.data(),
                                .slot_count = op.slots.size()};
    run(kernels_.compact, args,
        {.items = op.cache.cols(), .grain = 32, .steps = op.slots.size() * op.cache.cols()});
  }

  void gather_layers(const GatherLayersOp& op) override {
    check_op(op);
    keys_.clear();
    values_.clear();
    for (const CacheView& keys : op.keys) keys_.push_back(const_cache(keys));
    for (const CacheView& values : op.values) values_.push_back(const_cache(values));
    const cpu::GatherLayersArgs args{.keys = keys_.data(),
                                     .values = values_.data(),
                                     .pages = keys_.empty() ? cpu::Pages{} : pages(op.keys[0]),
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
    const std::size_t segments = op.logits.rows * cpu::top_k_segments(op.logits.cols);
    threads_.reserve(top_k_parts_, top_k_bytes(op.logits.rows, op.logits.cols));
    const cpu::TopKArgs args{
        .logits = const_rows(op.logits),
        .cols = op.logits.cols,
        .k = op.k,
        .parts = reinterpret_cast<cpu::TopKPart*>(top_k_parts_->mutable_data()),
        .tokens = op.tokens.data(),
        .log_probs = op.log_probs.data()};
    run(kernels_.top_k_segment, args,
        {.items = segments, .grain = 1, .steps = kExpSteps * op.logits.rows * op.logits.cols});
    run(kernels_.top_k, args,
        {.items = op.logits.rows, .grain = 1, .steps = std::uint64_t{segments} * op.k});
  }

  void argmax(const ArgmaxOp& op) override {
    check_op(op);
    const cpu::ArgmaxArgs args{
        .logits = const_rows(op.logits), .cols = op.logits.cols, .tokens = op.tokens.data()};
    run(kernels_.argmax, args, by_rows(op.logits));
  }

  void scale(const ScaleOp& op) override {
    check_op(op);
    const cpu::ScaleArgs args{.x = rows(op.x), .cols = op.x.cols, .factor = op.factor};
    run(kernels_.scale, args, by_rows(op.x));
  }

  void soft_cap(const SoftCapOp& op) override {
    check_op(op);
    const cpu::SoftCapArgs args{.x = rows(op.x), .cols = op.x.cols, .cap = op.cap};
    run(kernels_.soft_cap, args, by_rows(op.x, kExpSteps));
  }

  void convolve(const ConvolutionOp& op) override { recurrent_.convolve(op); }
  void delta_rule(const DeltaRuleOp& op) override { recurrent_.delta_rule(op); }

  void route(const RouteOp& op) override {
    check_op(op);
    const cpu::RouteArgs args{.logits = const_rows(op.logits),
                              .count = op.logits.cols,
                              .used = op.used,
                              .experts = rows(op.experts),
                              .weights = rows(op.weights)};
    run(cpu::route, args, by_rows(op.logits, kExpSteps));
  }

  void expert_matmul(const ExpertMatmulOp& op) override { experts_.expert_matmul(op); }

  void mix(const MixOp& op) override {
    check_op(op);
    const cpu::MixArgs args{.x = const_rows(op.x),
                            .weights = const_rows(op.weights),
                            .used = op.weights.cols,
                            .cols = op.y.cols,
                            .y = rows(op.y)};
    run(cpu::mix, args, by_rows(op.y, op.weights.cols));
  }

 private:
  // Types that have no kernel, since few rows are read.
  void embed_rows(const EmbedOp& op) {
    const cpu::Rows y = rows(op.y);
    const std::size_t row = row_bytes(op.table.type, op.table.cols).value();
    const Extent extent = by_rows(op.y);
    threads_.share(extent.items, extent.grain, extent.steps,
                   [&](std::size_t begin, std::size_t end, std::size_t) {
                     for (std::size_t i = begin; i < end; ++i) {
                       dequantize_row(op.table.type, {data(op.table) + op.tokens[i] * row, row},
                                      {y.data + i * y.stride, op.y.cols});
                     }
                   });
  }

  CpuThreads team_;
  CpuProducts products_;
  CpuExpertProducts experts_;
  CpuRecurrent recurrent_;
  DType drafter_cache_type_;
  std::unique_ptr<HostBuffer> top_k_parts_;  // parts of the logits of the largest call
  // Members, so that calls do not allocate.
  std::vector<cpu::ConstCache> keys_;
  std::vector<cpu::ConstCache> values_;
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
