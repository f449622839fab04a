#include "server/cuda/cuda_backend.h"

#include <algorithm>

#include "kernels/cuda/attention.h"
#include "kernels/cuda/experts.h"
#include "server/cuda/cuda_arguments.h"
#include "server/cuda/cuda_error.h"
#include "server/cuda/cuda_memory.h"
#include "server/cuda/cuda_products.h"
#include "server/cuda/cuda_queue.h"
#include "server/cuda/cuda_recurrent.h"
#include "server/cuda/cuda_sequences.h"
#include "server/cuda/cuda_views.h"
#include "shared/base/check.h"
#include "shared/runtime/op_checks.h"
#include "shared/tensor/coded_blocks.h"

namespace edgedraft::server {
namespace {

struct ClearArgs {
  void* memory;
  std::size_t bytes_count;
};
cudaError_t clear(const ClearArgs& args, cudaStream_t stream) {
  return cudaMemsetAsync(args.memory, 0, args.bytes_count, stream);
}

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const CudaBackendOptions& options)
      : options_(options),
        queue_(
            {.device = options.device, .graphs = options.graphs, .on_notice = options.on_notice}),
        arguments_(queue_),
        uploader_(queue_),
        results_(kResultsBytes),
        products_(queue_, options.deterministic),
        sequences_(queue_, arguments_, options.attention_scratch_bytes),
        recurrent_(queue_, arguments_) {}
  ~CudaBackend() override { queue_.abandon(); }

  std::string_view name() const override { return "cuda"; }
  std::uint32_t head_dim_max() const override { return sequences_.head_dim_max(); }

  // --- memory ---

  std::unique_ptr<Buffer> allocate(std::uint64_t floats) override {
    const auto bytes_count = checked_mul(floats, sizeof(float));
    if (!bytes_count) {
      throw DeviceError("CUDA: out of memory: " + std::to_string(floats) + " floats requested");
    }
    auto buffer = std::make_unique<CudaBuffer>(queue_, *bytes_count);
    try_cuda(cudaMemsetAsync(buffer->data(), 0, buffer->bytes_count(), queue_.stream()),
             "clearing memory");
    return buffer;
  }

  std::unique_ptr<Buffer> upload(ByteView bytes) override {
    auto buffer = std::make_unique<CudaBuffer>(queue_, bytes.size());
    uploader_.copy(buffer->data(), bytes, options_.on_upload);
    return buffer;
  }

  std::unique_ptr<Buffer> upload_table(const MatrixBytes& table) override {
    return is_coded(table.type) ? upload(coded(table.type, table.bytes)) : upload(table.bytes);
  }

  std::unique_ptr<Buffer> upload_matrix(const MatrixBytes& matrix) override {
    const auto row = row_bytes(matrix.type, matrix.cols);
    EDGEDRAFT_CHECK(row.has_value());
    EDGEDRAFT_CHECK(matrix.bytes.size() / *row == matrix.rows && matrix.bytes.size() % *row == 0);
    if (is_float(matrix.type)) return upload(matrix.bytes);
    EDGEDRAFT_CHECK(matrix.experts > 0 && matrix.rows % matrix.experts == 0);
    const std::uint32_t outputs = matrix.rows / matrix.experts;
    const std::size_t total = cuda::packed_layout(matrix.type, outputs, matrix.cols).total;
    auto packed = std::make_unique<CudaBuffer>(queue_, std::uint64_t{matrix.experts} * total);
    packed->packed = true;
    // One expert at a time, so that packing needs little memory beside the weight.
    const CudaBuffer file_order(queue_, outputs * cuda::row_bytes(matrix.type, matrix.cols));
    for (std::uint32_t expert = 0; expert < matrix.experts; ++expert) {
      const ByteView bytes = matrix.bytes.subspan(expert * outputs * *row, outputs * *row);
      uploader_.copy(file_order.data(),
                     is_coded(matrix.type) ? ByteView(coded(matrix.type, bytes)) : bytes,
                     options_.on_upload);
      try_cuda(cuda::pack_weight({.type = matrix.type,
                                  .weight = file_order.data(),
                                  .outputs = outputs,
                                  .inputs = matrix.cols,
                                  .packed = packed->data() + expert * total},
                                 queue_.stream()),
               "packing a weight");
    }
    // Matmuls prefetch weights before earlier kernels end. Unlike those kernels, a memset starts
    // only after earlier writes are visible.
    try_cuda(cudaMemsetAsync(file_order.data(), 0, 1, queue_.stream()), "packing a weight");
    return packed;
  }

  void write(const Matrix& to, std::span<const float> from) override {
    EDGEDRAFT_CHECK(from.size() == std::size_t{to.rows} * to.cols);
    if (from.empty()) return;
    const std::size_t row = to.cols * sizeof(float);
    try_cuda(cudaMemcpy2DAsync(device_data(to), to.stride * sizeof(float), from.data(), row, row,
                               to.rows, cudaMemcpyHostToDevice, queue_.stream()),
             "writing a matrix");
    queue_.wait("writing a matrix");
  }

  void wait() override { queue_.wait("waiting for the device"); }

  void read(const Matrix& from, std::span<float> to) override {
    EDGEDRAFT_CHECK(to.size() == std::size_t{from.rows} * from.cols);
    if (to.empty()) return wait();
    const std::size_t row = from.cols * sizeof(float);
    try_cuda(cudaMemcpy2DAsync(to.data(), row, device_data(from), from.stride * sizeof(float), row,
                               from.rows, cudaMemcpyDeviceToHost, queue_.stream()),
             "reading a matrix");
    queue_.wait("reading a matrix");
  }

  void read_cache(const CacheRows& from, std::span<float> to) override {
    if (from.type == DType::f32) return read(from.floats(), to);
    EDGEDRAFT_CHECK(to.size() == std::size_t{from.rows} * from.cols);
    if (to.empty()) return wait();
    // Copied in storage format, which has fewer bytes.
    const auto row = static_cast<std::size_t>(cache_bytes(from.type, from.cols));
    stored_.resize(row * from.rows);
    try_cuda(cudaMemcpy2DAsync(stored_.data(), row, device_data(from),
                               static_cast<std::size_t>(cache_bytes(from.type, from.stride)), row,
                               from.rows, cudaMemcpyDeviceToHost, queue_.stream()),
             "reading keys and values");
    queue_.wait("reading keys and values");
    for (std::size_t r = 0; r < from.rows; ++r) {
      dequantize_row(from.type, std::span(stored_).subspan(r * row, row),
                     to.subspan(r * from.cols, from.cols));
    }
  }

  // --- operations ---

  void embed(const EmbedOp& op) override {
    check_op(op);
    enqueue(cuda::embed, cuda::EmbedArgs{.type = op.table.type,
                                         .table = device_data(op.table),
                                         .tokens = arguments_.on_device(op.tokens),
                                         .rows = op.y.rows,
                                         .cols = op.y.cols,
                                         .y = device_rows(op.y)});
  }

  void rms_norm(const RmsNormOp& op) override {
    check_op(op);
    enqueue(cuda::rms_norm, cuda::RmsNormArgs{.x = device_const_rows(op.x),
                                              .weight = device_floats(op.weight),
                                              .y = device_rows(op.y),
                                              .rows = op.x.rows,
                                              .cols = op.weight.cols,
                                              .epsilon = op.epsilon,
                                              .groups = op.x.cols / op.weight.cols,
                                              .accumulate = op.into == Into::accumulate});
  }

  void matmul(const MatmulOp& op) override { matmuls({&op, 1}); }

  void matmuls(std::span<const MatmulOp> ops) override {
    if (ops.empty()) return;
    check_products(ops, ops[0].x);
    products_.multiply(ops);
    arguments_.make_room();
  }

  void norm_matmuls(const RmsNormOp& norm, std::span<const MatmulOp> products) override {
    if (!CudaProducts::take_int8(products) || norm.weight.cols != norm.x.cols ||
        norm.into == Into::accumulate) {
      return Backend::norm_matmuls(norm, products);
    }
    check_op(norm);
    check_products(products, norm.y);
    enqueue(cuda::rms_norm_quantize, cuda::RmsNormQuantizeArgs{.x = device_const_rows(norm.x),
                                                               .weight = device_floats(norm.weight),
                                                               .y = products_.reserve_int8(norm.y),
                                                               .rows = norm.x.rows,
                                                               .cols = norm.x.cols,
                                                               .epsilon = norm.epsilon});
    multiply_int8(products);
  }

  void gate_matmul(const GateOp& gated, const MatmulOp& product) override {
    if (!CudaProducts::take_int8({&product, 1})) return Backend::gate_matmul(gated, product);
    check_op(gated);
    check_products({&product, 1}, gated.y);
    enqueue(cuda::gate_quantize, cuda::GateQuantizeArgs{.gate = device_const_rows(gated.gate),
                                                        .up = device_const_rows(gated.up),
                                                        .y = products_.reserve_int8(gated.y),
                                                        .rows = gated.y.rows,
                                                        .cols = gated.y.cols,
                                                        .activation = gated.activation,
                                                        .one_gate = gated.gate.cols == 1});
    multiply_int8({&product, 1});
  }

  void rope(const RopeOp& op) override {
    check_op(op);
    if (op.rotated == 0) return;
    enqueue(cuda::rope, cuda::RopeArgs{.x = device_rows(op.x),
                                       .cols = op.x.cols,
                                       .positions = arguments_.on_device(op.positions),
                                       .cos_sin = device_const_rows(op.cos_sin),
                                       .rows = op.x.rows,
                                       .head_dim = op.head_dim,
                                       .rotated = op.rotated,
                                       .pairs = op.style == RopeStyle::pairs});
  }

  void rope_store(const RopeStoreOp& op) override {
    check_op(op);
    // A block of int8 has elements of several pairs, which its scale must wait for.
    if (std::ranges::any_of(op.sequences, [](const RopeStoreOp::Sequence& s) {
          return s.keys.memory.type == DType::i8;
        })) {
      return Backend::rope_store(op);
    }
    sequences_.rotate_and_store(op);
  }

  void store(const StoreOp& op) override { stores({&op, 1}); }
  void stores(std::span<const StoreOp> ops) override {
    for (const StoreOp& op : ops) check_op(op);
    sequences_.store(ops);
  }

  void attention(const AttentionOp& op) override { attentions({&op, 1}); }
  void attentions(std::span<const AttentionOp> ops) override {
    for (const AttentionOp& op : ops) {
      check_op(op);
      EDGEDRAFT_CHECK(op.heads.head_dim <= head_dim_max());
    }
    sequences_.attend(ops);
  }

  void group_attention(const GroupAttentionOp& op) override {
    check_op(op);
    EDGEDRAFT_CHECK(op.group_rows <= cuda::kGroupRowsMax);
    enqueue(cuda::group_attention, cuda::GroupAttentionArgs{.q = device_const_rows(op.q),
                                                            .k = device_const_rows(op.k),
                                                            .v = device_const_rows(op.v),
                                                            .groups = op.q.rows / op.group_rows,
                                                            .group_rows = op.group_rows,
                                                            .heads = heads_of(op.heads),
                                                            .y = device_rows(op.y)});
  }

  void gate(const GateOp& op) override {
    check_op(op);
    enqueue(cuda::gate, cuda::GateArgs{.gate = device_const_rows(op.gate),
                                       .up = device_const_rows(op.up),
                                       .y = device_rows(op.y),
                                       .rows = op.y.rows,
                                       .cols = op.y.cols,
                                       .activation = op.activation,
                                       .one_gate = op.gate.cols == 1});
  }

  void compact(const CompactOp& op) override {
    check_op(op);
    if (op.slots.empty()) return;
    // Not recorded: the path differs each time, so the next pass's list would never repeat.
    const auto* pages = op.cache.paged() ? arguments_.on_device_now(op.cache.pages) : nullptr;
    const cuda::CompactArgs args{.cache = cache(op.cache, pages),
                                 .cols = op.cache.cols(),
                                 .first = op.first,
                                 .slots = arguments_.on_device_now(op.slots),
                                 .slot_count = static_cast<std::uint32_t>(op.slots.size())};
    try_cuda(cuda::compact(args, queue_.stream()), "launching a kernel");
  }

  void gather_layers(const GatherLayersOp& op) override {
    check_op(op);
    layers_.clear();
    for (const CacheView& keys : op.keys) layers_.push_back(cache(keys));
    for (const CacheView& values : op.values) layers_.push_back(cache(values));
    const auto* layers = arguments_.on_device(std::span<const cuda::Cache>(layers_));
    enqueue(cuda::gather_layers,
            cuda::GatherLayersArgs{.keys = layers,
                                   .values = layers + op.keys.size(),
                                   .layers = static_cast<std::uint32_t>(op.keys.size()),
                                   .slots = arguments_.on_device(op.slots),
                                   .slot_count = static_cast<std::uint32_t>(op.slots.size()),
                                   .heads = heads_of(op.heads),
                                   .pairs = op.style == RopeStyle::pairs,
                                   .y = device_rows(op.y)});
  }

  void group_mean(const GroupMeanOp& op) override {
    check_op(op);
    enqueue(cuda::group_mean, cuda::GroupMeanArgs{.x = device_const_rows(op.x),
                                                  .groups = op.y.rows,
                                                  .group_rows = op.group_rows,
                                                  .cols = op.x.cols,
                                                  .y = device_rows(op.y)});
  }

  void top_k(const TopKOp& op) override {
    check_op(op);
    const std::size_t count = op.tokens.size();
    const std::size_t words = cuda::top_k_scratch_words(op.logits.rows, op.logits.cols, op.k);
    auto* chosen = choice_scratch_.reserve<std::uint32_t>(2 * count);
    enqueue(cuda::top_k, cuda::TopKArgs{.logits = device_const_rows(op.logits),
                                        .rows = op.logits.rows,
                                        .cols = op.logits.cols,
                                        .k = op.k,
                                        .scratch = keys_.reserve<std::uint64_t>(words),
                                        .scratch_words = words,
                                        .tokens = chosen,
                                        .log_probs = reinterpret_cast<float*>(chosen + count)});
    download(op.tokens.data(), chosen, op.tokens.size_bytes());
    download(op.log_probs.data(), chosen + count, op.log_probs.size_bytes());
  }

  void argmax(const ArgmaxOp& op) override {
    check_op(op);
    const std::size_t bytes_count = op.tokens.size() * sizeof(std::uint64_t);
    auto* keys = keys_.reserve<std::uint64_t>(op.tokens.size());
    enqueue(clear, ClearArgs{.memory = keys, .bytes_count = bytes_count});
    enqueue(cuda::argmax, cuda::ArgmaxArgs{.logits = device_const_rows(op.logits),
                                           .rows = op.logits.rows,
                                           .cols = op.logits.cols,
                                           .keys = keys});
    host_keys_.resize(op.tokens.size());
    download(host_keys_.data(), keys, bytes_count);
    std::transform(host_keys_.begin(), host_keys_.end(), op.tokens.begin(), cuda::argmax_token);
  }

  void scale(const ScaleOp& op) override {
    check_op(op);
    enqueue(cuda::scale,
            cuda::ScaleArgs{
                .x = device_rows(op.x), .rows = op.x.rows, .cols = op.x.cols, .factor = op.factor});
  }

  void soft_cap(const SoftCapOp& op) override {
    check_op(op);
    enqueue(cuda::soft_cap,
            cuda::SoftCapArgs{
                .x = device_rows(op.x), .rows = op.x.rows, .cols = op.x.cols, .cap = op.cap});
  }

  void convolve(const ConvolutionOp& op) override {
    check_op(op);
    recurrent_.convolve(op);
  }

  void delta_rule(const DeltaRuleOp& op) override {
    check_op(op);
    recurrent_.delta_rule(op);
  }

  void route(const RouteOp& op) override {
    check_op(op);
    enqueue(cuda::route, cuda::RouteArgs{.logits = device_const_rows(op.logits),
                                         .rows = op.logits.rows,
                                         .count = op.logits.cols,
                                         .used = op.used,
                                         .experts = device_rows(op.experts),
                                         .weights = device_rows(op.weights)});
  }

  void expert_matmul(const ExpertMatmulOp& op) override {
    check_op(op);
    products_.multiply_experts(op);
    arguments_.make_room();
  }

  void mix(const MixOp& op) override {
    check_op(op);
    enqueue(cuda::mix, cuda::MixArgs{.x = device_const_rows(op.x),
                                     .weights = device_const_rows(op.weights),
                                     .rows = op.y.rows,
                                     .used = op.weights.cols,
                                     .cols = op.y.cols,
                                     .y = device_rows(op.y)});
  }

 private:
  static constexpr std::size_t kResultsBytes = 256u << 10;

  template <class Args>
  void enqueue(cudaError_t (*launcher)(const Args&, cudaStream_t), const Args& args) {
    queue_.enqueue(launcher, args);
    arguments_.make_room();
  }

  void multiply_int8(std::span<const MatmulOp> products) {
    products_.multiply(products, CudaProducts::Input::reserved_int8);
    arguments_.make_room();
  }

  // Waits for the result. Copies in pieces through pinned memory.
  void download(void* to, const void* from, std::size_t bytes_count) {
    for (std::size_t done = 0; done < bytes_count; done += results_.bytes_count()) {
      const std::size_t piece = std::min(results_.bytes_count(), bytes_count - done);
      try_cuda(cudaMemcpyAsync(results_.data(), static_cast<const std::byte*>(from) + done, piece,
                               cudaMemcpyDeviceToHost, queue_.stream()),
               "reading results");
      queue_.wait("reading results");
      std::copy_n(results_.data(), piece, static_cast<std::byte*>(to) + done);
    }
  }

  static bool same_place(const Matrix& a, const Matrix& b) {
    return a.buffer == b.buffer && a.offset == b.offset && a.rows == b.rows && a.stride == b.stride;
  }
  static void check_products(std::span<const MatmulOp> ops, const Matrix& x) {
    for (const MatmulOp& op : ops) {
      check_op(op);
      EDGEDRAFT_CHECK(same_place(op.x, x));
    }
  }

  cuda::Cache cache(const CacheView& view, const std::uint32_t* pages) {
    return {.data = device_data(view.memory),
            .type = view.memory.type,
            .stride = view.memory.stride,
            .pages = pages,
            .page_slots = view.page_slots};
  }
  cuda::Cache cache(const CacheView& view) {
    return cache(view, view.paged() ? arguments_.on_device(view.pages) : nullptr);
  }

  CudaBackendOptions options_;
  CudaQueue queue_;
  CudaArguments arguments_;
  CudaUploader uploader_;
  PinnedMemory results_;
  CudaProducts products_;
  CudaSequences sequences_;
  CudaRecurrent recurrent_;
  CudaScratch keys_{queue_};
  CudaScratch choice_scratch_{queue_};
  // Kept so that calls do not allocate.
  std::vector<cuda::Cache> layers_;
  std::vector<std::uint64_t> host_keys_;
  Bytes stored_;
};

}  // namespace

std::unique_ptr<Backend> make_cuda_backend(const CudaBackendOptions& options) {
  return std::make_unique<CudaBackend>(options);
}

}  // namespace edgedraft::server
