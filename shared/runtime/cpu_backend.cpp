#include "shared/runtime/cpu_backend.h"

#include <algorithm>
#include <bit>
#include <cstring>
#include <vector>

#include "kernels/cpu/experts.h"
#include "kernels/cpu/ops.h"
#include "kernels/cpu/packed.h"
#include "shared/base/check.h"
#include "shared/runtime/cpu_experts.h"
#include "shared/runtime/cpu_memory.h"
#include "shared/runtime/expert_stacks.h"
#include "shared/runtime/host_backend.h"
#include "shared/runtime/op_checks.h"
#include "shared/runtime/thread_pool.h"
#include "shared/tensor/coded_blocks.h"

namespace edgedraft {
namespace {

// Below this many steps (one multiply-add or one moved element) a single thread is faster than
// waking another.
constexpr std::uint64_t kParallelStepsMin = 32 * 1024;
// Work above this is shared out in parts of at least this size, so that a faster thread takes more
// of them. Below it, one part per thread is cheapest.
constexpr std::uint64_t kTurnStepsMin = 64 * 1024;
// Cost of e^x, in steps.
constexpr std::uint64_t kExpSteps = 8;
// Cost of rounding an element to int8, in steps.
constexpr std::uint64_t kQuantizeSteps = 2;
// Cost of splitting an element into bfloat16, in steps.
constexpr std::uint64_t kSplitSteps = 4;
// From this many rows per thread, and up to this weight size, moving activations between cores
// costs more than reading the weight on every core.
constexpr std::size_t kRowsAThreadMin = 4;
constexpr std::size_t kSharedWeightBytesMax = std::size_t{2} << 20;

// An operation's items (kernels/cpu/ops.h), the multiples in which threads get them, and its cost.
struct Extent {
  std::size_t items;
  std::size_t grain;
  std::uint64_t steps;
};

class CpuBackend final : public HostBackend {
 public:
  CpuBackend(const cpu::Kernels& kernels, const CpuBackendOptions& options)
      : HostBackend(options.meter),
        kernels_(kernels),
        pool_(options.threads),
        scratch_(pool_.thread_count()),
        drafter_cache_type_(options.drafter_cache_type),
        stacks_(std::make_shared<ExpertStacks>(meter(),
                                               expert_bytes_max(options.expert_bytes, *meter()))) {
    reserve_scratch(kProductScratchFloats);
  }

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
    if (experts > 1) return stacks_->add(args, experts, step * *row);
    auto buffer =
        HostBuffer::for_packed(cpu::packed_bytes(matrix.type, matrix.rows, matrix.cols), meter());
    args.panels = buffer->mutable_data();
    pool_.run(
        cpu::panel_count(args.outputs), 1,
        [&](std::size_t begin, std::size_t end, std::size_t) { pack_matrix(args, begin, end); });
    return buffer;
  }

  void matmul(const MatmulOp& op) override { matmuls({&op, 1}); }

  // Groups matmuls of a kind, so that their activations are converted once.
  void matmuls(std::span<const MatmulOp> ops) override {
    int8_products_.clear();
    float_products_.clear();
    bool is_split = false;
    for (const MatmulOp& op : ops) {
      check_op(op);
      EDGEDRAFT_CHECK(same_place(op.x, ops[0].x));
      if (takes_tiles(kernels_, op.weight.type, op.x.cols)) {
        if (!is_split) run_split(op.x);
        is_split = true;
        tile_matmul(op);
      } else if (is_float(op.weight.type)) {
        float_products_.add(float_args(op));
      } else {
        int8_products_.add(int8_args(op));
      }
    }
    if (!int8_products_.ops.empty()) int8_matmuls(ops[0].x);
    if (!float_products_.ops.empty()) float_matmuls(ops[0].x);
  }

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
    reserve_scratch(cpu::attention_scratch_floats(heads));
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
    reserve_scratch(cpu::attention_scratch_floats(heads));
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
    reserve(top_k_parts_, top_k_bytes(op.logits.rows, op.logits.cols));
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

  void convolve(const ConvolutionOp& op) override {
    check_op(op);
    static_assert(kTapsMax == cpu::kConvolutionTapsMax);
    const std::size_t folded = recurrent(op.sequences);
    const cpu::ConvolutionArgs args{.x = const_rows(op.x),
                                    .weight = f32_data(op.weight),
                                    .taps = op.weight.cols,
                                    .silu = op.activation == Activation::silu,
                                    .y = rows(op.y),
                                    .cols = op.x.cols,
                                    .sequences = sequences_.data()};
    run(kernels_.convolve, args,
        {.items = sequences_.size() * cpu::convolution_parts(op.x.cols),
         .grain = 1,
         .steps = (op.x.rows * (op.weight.cols + kExpSteps) + folded) * op.x.cols});
  }

  void delta_rule(const DeltaRuleOp& op) override {
    check_op(op);
    const std::size_t folded = recurrent(op.sequences);
    const cpu::DeltaRuleArgs args{.qkv = const_rows(op.qkv),
                                  .alpha = const_rows(op.alpha),
                                  .beta = const_rows(op.beta),
                                  .decay = f32_data(op.decay),
                                  .time_bias = f32_data(op.time_bias),
                                  .key_heads = op.key_heads,
                                  .value_heads = op.value_heads,
                                  .dim = op.dim,
                                  .epsilon = op.epsilon,
                                  .y = rows(op.y),
                                  .sequences = sequences_.data()};
    reserve_scratch(cpu::delta_rule_scratch_floats(op.dim));
    run(kernels_.delta_rule, args,
        {.items = sequences_.size() * op.key_heads,
         .grain = 1,
         .steps = 4 * std::uint64_t{op.qkv.rows + folded} * op.value_cols() * op.dim});
  }

  void route(const RouteOp& op) override {
    check_op(op);
    const cpu::RouteArgs args{.logits = const_rows(op.logits),
                              .count = op.logits.cols,
                              .used = op.used,
                              .experts = rows(op.experts),
                              .weights = rows(op.weights)};
    run(cpu::route, args, by_rows(op.logits, kExpSteps));
  }

  void expert_matmul(const ExpertMatmulOp& op) override {
    check_op(op);
    groups_.group(op.experts, data(op.experts), op.weight.experts);
    pack_chosen(op.weight);
    const MatmulOp product{.x = op.x, .weight = op.weight, .bias = op.bias, .y = op.y};
    if (is_float(op.weight.type)) {
      multiply_groups(kernels_.matmul, float_args(product), float_groups(op));
    } else {
      multiply_groups(kernels_.int8_matmul, int8_args(product), int8_groups(op));
    }
  }

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
  static cpu::Rows rows(const Matrix& m) { return {data(m), m.stride}; }
  static cpu::ConstRows const_rows(const Matrix& m) { return {data(m), m.stride}; }
  static cpu::Cache cache(const CacheView& view) {
    return {data(view.memory), view.memory.stride, view.memory.type};
  }
  static cpu::ConstCache const_cache(const CacheView& view) {
    return {data(view.memory), view.memory.stride, view.memory.type};
  }
  static cpu::Pages pages(const CacheView& cache) {
    if (!cache.paged()) return {};
    return {cache.pages.data(), static_cast<unsigned>(std::countr_zero(cache.page_slots))};
  }

  // Lists the sequences of a recurrent operation in sequences_. Returns their pending rows.
  std::size_t recurrent(std::span<const RecurrentRows> sequences) {
    static_assert(kNoParent == cpu::kStateParent && kMaskRowsMax == cpu::kRecurrentRowsMax);
    sequences_.clear();
    std::size_t first = 0;
    std::size_t folded = 0;
    for (const RecurrentRows& s : sequences) {
      sequences_.push_back({.first = first,
                            .rows = s.rows,
                            .settled = s.settled,
                            .kept_first = s.first,
                            .state = rows(s.state),
                            .kept = rows(s.kept),
                            .pending = s.pending.data(),
                            .pending_count = s.pending.size(),
                            .parents = s.parents.data()});
      first += s.rows;
      folded += s.pending.size();
    }
    return folded;
  }

  static Extent by_rows(const Matrix& m, std::uint64_t steps_a_number = 1) {
    return {.items = m.rows, .grain = 1, .steps = std::uint64_t{m.rows} * m.cols * steps_a_number};
  }

  // Grows to the largest operation seen. After a failed growth nothing is left, so every operation
  // reserves what it needs.
  void reserve_scratch(std::size_t floats) {
    if (floats <= scratch_floats_) return;
    scratch_floats_ = 0;
    for (auto& memory : scratch_) reserve(memory, floats * sizeof(float));
    scratch_floats_ = floats;
  }

  void reserve(std::unique_ptr<HostBuffer>& memory, std::size_t bytes) {
    if (memory && memory->bytes().size() >= bytes) return;
    memory.reset();
    memory = std::make_unique<HostBuffer>(bytes, meter());
  }

  float* scratch(std::size_t thread) {
    return reinterpret_cast<float*>(scratch_[thread]->mutable_data());
  }

  static bool same_place(const Matrix& a, const Matrix& b) {
    return a.buffer == b.buffer && a.offset == b.offset && a.rows == b.rows && a.stride == b.stride;
  }

  // Types that have no kernel, since few rows are read.
  void embed_rows(const EmbedOp& op) {
    const cpu::Rows y = rows(op.y);
    const std::size_t row = row_bytes(op.table.type, op.table.cols).value();
    const Extent extent = by_rows(op.y);
    share(extent.items, extent.grain, extent.steps,
          [&](std::size_t begin, std::size_t end, std::size_t) {
            for (std::size_t i = begin; i < end; ++i) {
              dequantize_row(op.table.type, {data(op.table) + op.tokens[i] * row, row},
                             {y.data + i * y.stride, op.y.cols});
            }
          });
  }

  // Matmuls of one call whose weights lie in panels.
  template <class Args>
  struct PanelProducts {
    struct Op {
      Args args;               // all but x
      std::size_t panels_end;  // counted over all matmuls of the call
    };
    std::vector<Op> ops;
    std::size_t panels = 0;
    std::size_t weight_bytes = 0;

    void clear() {
      ops.clear();
      panels = 0;
      weight_bytes = 0;
    }
    void add(const Args& args) {
      panels += cpu::panel_count(args.outputs);
      weight_bytes += cpu::packed_bytes(args.type, args.outputs, args.inputs);
      ops.push_back({.args = args, .panels_end = panels});
    }
  };

  static const std::byte* panels_of(const Weight& w) {
    EDGEDRAFT_CHECK(w.offset_bytes == 0);
    const std::size_t bytes_count = packed_stack_bytes(w.type, w.rows, w.cols, w.experts);
    if (w.experts > 1) {
      const auto& stack = static_cast<const ExpertStack&>(*w.buffer);
      EDGEDRAFT_CHECK(stack.bytes_count() == bytes_count);
      return stack.panels();
    }
    const auto& buffer = static_cast<const HostBuffer&>(*w.buffer);
    EDGEDRAFT_CHECK(buffer.is_packed() && buffer.bytes().size() == bytes_count);
    return buffer.bytes().data();
  }

  // Threads share the panels of all matmuls together and read each weight once.
  template <class Args, class Activations>
  void by_panels(void (*kernel)(const Args&, const cpu::Work&), const PanelProducts<Args>& products,
                 const Matrix& x, const Activations* activations) {
    const std::uint64_t steps =
        std::uint64_t{products.panels} * cpu::kPanelOutputs * x.rows * x.cols;
    share(products.panels, 1, steps, [&](std::size_t begin, std::size_t end, std::size_t thread) {
      std::size_t first = 0;
      for (const auto& op : products.ops) {
        const std::size_t from = std::max(begin, first);
        const std::size_t to = std::min(end, op.panels_end);
        if (from < to) {
          Args args = op.args;
          args.x = activations;
          kernel(args, {.begin = from - first, .end = to - first, .scratch = scratch(thread)});
        }
        first = op.panels_end;
      }
    });
  }

  static cpu::Int8MatmulArgs int8_args(const MatmulOp& op) {
    return {.x = nullptr,
            .x_stride = cpu::quantized_row_bytes(op.x.cols),
            .type = op.weight.type,
            .panels = panels_of(op.weight),
            .bias = f32_data(op.bias),
            .y = rows(op.y),
            .rows = op.x.rows,
            .inputs = op.x.cols,
            .outputs = op.y.cols,
            .accumulate = op.into == Into::accumulate};
  }

  // Converts the rows of x to int8, into quantized_.
  cpu::QuantizeArgs quantize_args(const Matrix& x) {
    return {.x = const_rows(x),
            .cols = x.cols,
            .y = quantized_->mutable_data(),
            .y_stride = cpu::quantized_row_bytes(x.cols)};
  }

  void int8_matmuls(const Matrix& x) {
    reserve(quantized_, quantized_bytes(x.rows, x.cols));
    if (x.rows >= kRowsAThreadMin * pool_.thread_count() &&
        int8_products_.weight_bytes <= kSharedWeightBytesMax) {
      int8_by_rows(x);
    } else {
      run(kernels_.quantize, quantize_args(x), by_rows(x, kQuantizeSteps));
      by_panels(kernels_.int8_matmul, int8_products_, x, quantized_->bytes().data());
    }
  }

  // Threads share the rows, as in the operations before and after: activations stay with the core
  //         that made them.
  void int8_by_rows(const Matrix& x) {
    reserve_scratch(kProductScratchFloats);
    const cpu::QuantizeArgs quantize = quantize_args(x);
    pool_.run(x.rows, pool_.one_step_a_thread(x.rows, 1),
              [&](std::size_t begin, std::size_t end, std::size_t thread) {
                kernels_.quantize(quantize, {.begin = begin, .end = end, .scratch = nullptr});
                for (const auto& op : int8_products_.ops) {
                  cpu::Int8MatmulArgs args = op.args;
                  args.x = quantize.y + begin * quantize.y_stride;
                  args.y.data += begin * args.y.stride;
                  args.rows = end - begin;
                  kernels_.int8_matmul(args, {.begin = 0,
                                              .end = cpu::panel_count(args.outputs),
                                              .scratch = scratch(thread)});
                }
              });
  }

  // Converts the rows of x to bfloat16, into split_.
  void run_split(const Matrix& x) {
    const std::size_t cells = cpu::split_cells(x.rows, x.cols);
    reserve(split_, split_bytes(x.rows, x.cols));
    const cpu::SplitArgs args{
        .x = const_rows(x), .rows = x.rows, .cols = x.cols, .y = split_->mutable_data()};
    run(kernels_.split, args, {.items = cells, .grain = 1, .steps = kSplitSteps * x.rows * x.cols});
  }

  void tile_matmul(const MatmulOp& op) {
    const cpu::TileMatmulArgs args{.x = split_->bytes().data(),
                                   .weight = data(op.weight),
                                   .bias = f32_data(op.bias),
                                   .y = rows(op.y),
                                   .rows = op.x.rows,
                                   .inputs = op.x.cols,
                                   .accumulate = op.into == Into::accumulate};
    // Grain: outputs served by one read of the activations.
    run(kernels_.tile_matmul, args,
        {.items = op.y.cols,
         .grain = 32,
         .steps = std::uint64_t{op.x.rows} * op.x.cols * op.y.cols});
  }

  static cpu::MatmulArgs float_args(const MatmulOp& op) {
    return {.x = nullptr,
            .type = op.weight.type,
            .panels = panels_of(op.weight),
            .bias = f32_data(op.bias),
            .y = rows(op.y),
            .rows = op.x.rows,
            .inputs = op.x.cols,
            .outputs = op.y.cols,
            .accumulate = op.into == Into::accumulate};
  }

  void float_matmuls(const Matrix& x) {
    by_panels(kernels_.matmul, float_products_, x, x.rows == 1 ? data(x) : run_interleave(x));
  }

  // Interleaves the rows of x, into interleaved_.
  const float* run_interleave(const Matrix& x) {
    reserve(interleaved_, interleaved_bytes(x.rows, x.cols));
    auto* y = reinterpret_cast<float*>(interleaved_->mutable_data());
    run(kernels_.interleave,
        cpu::InterleaveArgs{.x = const_rows(x), .rows = x.rows, .cols = x.cols, .y = y},
        {.items = cpu::chain_count(x.cols), .grain = 1, .steps = std::uint64_t{x.rows} * x.cols});
    return y;
  }

  // Packs those experts of groups_ that are not.
  void pack_chosen(const Weight& w) {
    const auto& stack = static_cast<const ExpertStack&>(*w.buffer);
    const std::span missing = stacks_->use(stack, groups_.blocks());
    if (missing.empty()) return;
    pool_.run(missing.size() * cpu::panel_count(w.rows / w.experts), 1,
              [&](std::size_t begin, std::size_t end, std::size_t) {
                ExpertStacks::pack(stack, missing, begin, end);
              });
  }

  // Copies the rows of blocks with several pairs to gathered_, and calls finish(block, rows) on
  // each.
  template <class Finish>
  void gather(const ExpertMatmulOp& op, GroupedRows& rows, const Finish& finish) {
    if (!groups_.any_shared()) return;
    reserve(gathered_, gathered_bytes(op.weight.type, op.y.rows, op.x.cols));
    std::byte* to = gathered_->mutable_data();
    rows.gathered = to;
    const auto copy_block = [&](const ExpertGroups::Block& block) {
      std::byte* first = to + block.first * rows.gathered_stride;
      for (std::uint32_t i = 0; i < block.count; ++i) {
        std::memcpy(first + i * rows.gathered_stride, rows.row_of(groups_.pairs()[block.first + i]),
                    rows.gathered_stride);
      }
      finish(block, first);
    };
    share(groups_.blocks().size(), 1, std::uint64_t{op.y.rows} * op.x.cols,
          [&](std::size_t begin, std::size_t end, std::size_t) {
            for (const auto& block : groups_.blocks().subspan(begin, end - begin)) {
              if (block.count > 1) copy_block(block);
            }
          });
  }

  GroupedRows int8_groups(const ExpertMatmulOp& op) {
    reserve(quantized_, quantized_bytes(op.x.rows, op.x.cols));
    run(kernels_.quantize, quantize_args(op.x), by_rows(op.x, kQuantizeSteps));
    const std::size_t stride = cpu::quantized_row_bytes(op.x.cols);
    GroupedRows rows{.x = quantized_->bytes().data(),
                     .x_stride = stride,
                     .pairs_a_row = op.y.rows / std::max(op.x.rows, 1u),
                     .gathered = nullptr,
                     .gathered_stride = stride};
    gather(op, rows, [](const ExpertGroups::Block&, const std::byte*) {});
    return rows;
  }

  // Interleaves each block's rows, into interleaved_.
  GroupedRows float_groups(const ExpertMatmulOp& op) {
    const std::size_t row_floats = op.x.cols;
    GroupedRows rows{.x = reinterpret_cast<const std::byte*>(data(op.x)),
                     .x_stride = op.x.stride * sizeof(float),
                     .pairs_a_row = op.y.rows / std::max(op.x.rows, 1u),
                     .gathered = nullptr,
                     .gathered_stride = row_floats * sizeof(float)};
    if (!groups_.any_shared()) return rows;
    reserve(interleaved_, interleaved_bytes(op.y.rows, op.x.cols));
    auto* to = reinterpret_cast<float*>(interleaved_->mutable_data());
    gather(op, rows, [&](const ExpertGroups::Block& block, const std::byte* from) {
      kernels_.interleave({.x = {reinterpret_cast<const float*>(from), row_floats},
                           .rows = block.count,
                           .cols = row_floats,
                           .y = to + block.first * row_floats},
                          {.begin = 0, .end = cpu::chain_count(row_floats), .scratch = nullptr});
    });
    rows.gathered = interleaved_->bytes().data();
    return rows;
  }

  // Threads share the panels of all chosen experts together. `all` has the first expert's weights.
  template <class Args>
  void multiply_groups(void (*kernel)(const Args&, const cpu::Work&), const Args& all,
                       const GroupedRows& rows) {
    reserve_scratch(kProductScratchFloats + kExpertTileFloats);
    const std::size_t panels = cpu::panel_count(all.outputs);
    const std::span blocks = groups_.blocks();
    share(blocks.size() * panels, 1,
          std::uint64_t{groups_.pairs().size()} * all.inputs * all.outputs,
          [&](std::size_t begin, std::size_t end, std::size_t thread) {
            for (std::size_t item = begin; item < end;) {
              const std::size_t index = item / panels;
              const std::size_t next = std::min(end, (index + 1) * panels);
              const ExpertGroups::Block& block = blocks[index];
              multiply_block(kernel, all, rows, block,
                             groups_.pairs().subspan(block.first, block.count),
                             {.begin = item - index * panels,
                              .end = next - index * panels,
                              .scratch = scratch(thread)});
              item = next;
            }
          });
  }

  // Calls task(begin, end, thread) for all items, on all threads if the work is large enough.
  template <class Task>
  void share(std::size_t items, std::size_t grain, std::uint64_t steps, const Task& task) {
    reserve_scratch(kProductScratchFloats);
    if (steps < kParallelStepsMin) {
      task(0, items, 0);
    } else {
      const std::uint64_t turns = std::max<std::uint64_t>(steps / kTurnStepsMin, 1);
      const std::size_t step = (items + turns * grain - 1) / (turns * grain) * grain;
      pool_.run(items, std::min(step, pool_.one_step_a_thread(items, grain)), task);
    }
  }

  template <class Args>
  void run(void (*kernel)(const Args&, const cpu::Work&), const Args& args, const Extent& extent) {
    share(extent.items, extent.grain, extent.steps,
          [&](std::size_t begin, std::size_t end, std::size_t thread) {
            kernel(args, {.begin = begin, .end = end, .scratch = scratch(thread)});
          });
  }

  const cpu::Kernels& kernels_;
  ThreadPool pool_;
  std::vector<std::unique_ptr<HostBuffer>> scratch_;  // one per thread
  std::size_t scratch_floats_ = 0;
  DType drafter_cache_type_;
  std::shared_ptr<ExpertStacks> stacks_;
  // Activations, sized for the largest call.
  std::unique_ptr<HostBuffer> quantized_;    // as int8
  std::unique_ptr<HostBuffer> interleaved_;  // with rows interleaved
  std::unique_ptr<HostBuffer> split_;        // as bfloat16
  std::unique_ptr<HostBuffer> gathered_;     // grouped by expert
  std::unique_ptr<HostBuffer> top_k_parts_;  // parts of the logits of the largest call
  // Members, so that calls do not allocate.
  PanelProducts<cpu::Int8MatmulArgs> int8_products_;
  PanelProducts<cpu::MatmulArgs> float_products_;
  ExpertGroups groups_;
  std::vector<cpu::ConstCache> keys_;
  std::vector<cpu::ConstCache> values_;
  std::vector<cpu::Recurrent> sequences_;
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
