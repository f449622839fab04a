#include "server/cuda/cuda_backend.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <optional>
#include <string>
#include <vector>

#include "kernels/cuda/ops.h"
#include "server/cuda/cuda_error.h"
#include "server/cuda/cuda_gemm.h"
#include "server/cuda/cuda_memory.h"
#include "shared/base/check.h"
#include "shared/runtime/op_checks.h"

namespace edgedraft {
namespace {

constexpr int kCapabilityMin = 75;

// Values of DType and WeightType are the same.
cuda::WeightType weight_type(DType type) {
  static_assert(static_cast<int>(DType::q8_0) == static_cast<int>(cuda::WeightType::q8_0));
  static_assert(static_cast<int>(DType::q6_k) == static_cast<int>(cuda::WeightType::q6_k));
  return static_cast<cuda::WeightType>(type);
}

bool is_float(DType type) {
  return type == DType::f32 || type == DType::f16 || type == DType::bf16;
}

// As there; values of DType and CacheType are the same, too.
cuda::CacheType cache_type(DType type) {
  static_assert(static_cast<int>(DType::bf16) == static_cast<int>(cuda::CacheType::bf16));
  EDGEDRAFT_CHECK(is_cache_type(type));
  return static_cast<cuda::CacheType>(type);
}

cuda::Heads heads_of(const HeadShape& heads) {
  return {.kv_heads = heads.kv_heads,
          .group = heads.query_heads / heads.kv_heads,
          .head_dim = heads.head_dim};
}

// The number of slots behind the prefix that masks reach to.
std::uint32_t reach_of(std::span<const AncestorMask> masks) {
  AncestorMask all;
  for (const AncestorMask& mask : masks) {
    for (std::size_t word = 0; word < mask.bits.size(); ++word) all.bits[word] |= mask.bits[word];
  }
  for (std::size_t word = all.bits.size(); word-- > 0;) {
    if (all.bits[word] != 0) {
      return static_cast<std::uint32_t>(word * 64 +
                                        static_cast<std::size_t>(std::bit_width(all.bits[word])));
    }
  }
  return 0;
}

// The device and its stream, made before and destroyed after everything on it.
class CudaStream {
 public:
  explicit CudaStream(int device) : device_(device) {
    try_cuda(cudaSetDevice(device), "choosing the device");
    try_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
    cudaMemPool_t pool = nullptr;
    try_cuda(cudaDeviceGetDefaultMemPool(&pool, device), "finding the memory pool");
    std::uint64_t keep = std::numeric_limits<std::uint64_t>::max();
    try_cuda(cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &keep),
             "setting up the memory pool");
  }
  ~CudaStream() {
    static_cast<void>(cudaStreamSynchronize(stream_));
    static_cast<void>(cudaStreamDestroy(stream_));
  }
  CudaStream(const CudaStream&) = delete;
  CudaStream& operator=(const CudaStream&) = delete;

  // Makes the device the calling thread's.
  cudaStream_t use() const {
    try_cuda(cudaSetDevice(device_), "choosing the device");
    return stream_;
  }
  cudaStream_t get() const { return stream_; }

 private:
  int device_;
  cudaStream_t stream_ = nullptr;
};

class CudaBackend final : public Backend {
 public:
  explicit CudaBackend(const CudaBackendOptions& options)
      : options_(options),
        stream_(options.device),
        arguments_(stream_.get()),
        uploader_(stream_.get()),
        results_(kResultsBytes) {
    if (!options.deterministic) gemm_ = std::make_unique<CudaGemm>(stream_.get());
  }

  std::string_view name() const override { return "cuda"; }

  // --- memory ---

  std::unique_ptr<Buffer> allocate(std::uint64_t floats) override {
    const auto bytes_count = checked_mul(floats, sizeof(float));
    if (!bytes_count) {
      throw DeviceError("CUDA: out of memory: " + std::to_string(floats) + " floats wanted");
    }
    auto buffer = std::make_unique<CudaBuffer>(stream_.use(), *bytes_count);
    try_cuda(cudaMemsetAsync(buffer->data(), 0, buffer->bytes_count(), stream_.get()),
             "clearing memory");
    return buffer;
  }

  std::unique_ptr<Buffer> upload(ByteView bytes) override {
    auto buffer = std::make_unique<CudaBuffer>(stream_.use(), bytes.size());
    uploader_.copy(buffer->data(), bytes, options_.on_upload);
    return buffer;
  }

  std::unique_ptr<Buffer> upload_matrix(const MatrixBytes& matrix) override {
    const auto row = row_bytes(matrix.type, matrix.cols);
    EDGEDRAFT_CHECK(row.has_value());
    EDGEDRAFT_CHECK(matrix.bytes.size() / *row == matrix.rows && matrix.bytes.size() % *row == 0);
    auto file_order = upload(matrix.bytes);
    if (is_float(matrix.type)) return file_order;
    const cuda::WeightType type = weight_type(matrix.type);
    auto packed = std::make_unique<CudaBuffer>(
        stream_.get(), cuda::packed_layout(type, matrix.rows, matrix.cols).total);
    packed->packed = true;
    try_cuda(cuda::pack_weight({.type = type,
                                .weight = static_cast<CudaBuffer&>(*file_order).data(),
                                .outputs = matrix.rows,
                                .inputs = matrix.cols,
                                .packed = packed->data()},
                               stream_.get()),
             "packing a weight");
    return packed;
  }

  void write(const Matrix& to, std::span<const float> from) override {
    EDGEDRAFT_CHECK(from.size() == std::size_t{to.rows} * to.cols);
    if (from.empty()) return;
    const std::size_t row = to.cols * sizeof(float);
    try_cuda(cudaMemcpy2DAsync(data(to), to.stride * sizeof(float), from.data(), row, row, to.rows,
                               cudaMemcpyHostToDevice, stream_.use()),
             "writing a matrix");
    wait("writing a matrix");
  }

  void read(const Matrix& from, std::span<float> to) override {
    EDGEDRAFT_CHECK(to.size() == std::size_t{from.rows} * from.cols);
    if (to.empty()) return;
    const std::size_t row = from.cols * sizeof(float);
    try_cuda(cudaMemcpy2DAsync(to.data(), row, data(from), from.stride * sizeof(float), row,
                               from.rows, cudaMemcpyDeviceToHost, stream_.use()),
             "reading a matrix");
    wait("reading a matrix");
  }

  void read_cache(const CacheRows& from, std::span<float> to) override {
    if (from.type == DType::f32) return read(from.floats(), to);
    EDGEDRAFT_CHECK(to.size() == std::size_t{from.rows} * from.cols);
    if (to.empty()) return;
    // As it is stored, so that half the bytes cross.
    const auto row = static_cast<std::size_t>(cache_bytes(from.type, from.cols));
    stored_.resize(row * from.rows);
    try_cuda(cudaMemcpy2DAsync(stored_.data(), row, data(from),
                               static_cast<std::size_t>(cache_bytes(from.type, from.stride)), row,
                               from.rows, cudaMemcpyDeviceToHost, stream_.use()),
             "reading keys and values");
    wait("reading keys and values");
    dequantize_row(from.type, stored_, to);
  }

  // --- operations ---

  void embed(const EmbedOp& op) override {
    check_op(op);
    enqueue(cuda::embed, cuda::EmbedArgs{.type = weight_type(op.table.type),
                                         .table = data(op.table),
                                         .tokens = arguments_.on_device(op.tokens),
                                         .rows = op.y.rows,
                                         .cols = op.y.cols,
                                         .y = rows(op.y)});
  }

  void rms_norm(const RmsNormOp& op) override {
    check_op(op);
    enqueue(cuda::rms_norm, cuda::RmsNormArgs{.x = const_rows(op.x),
                                              .weight = f32_data(op.weight),
                                              .y = rows(op.y),
                                              .rows = op.x.rows,
                                              .cols = op.x.cols,
                                              .epsilon = op.epsilon});
  }

  void matmul(const MatmulOp& op) override { matmuls({&op, 1}); }

  void matmuls(std::span<const MatmulOp> ops) override {
    for (const MatmulOp& op : ops) {
      check_op(op);
      EDGEDRAFT_CHECK(same_place(op.x, ops[0].x));
    }
    bool is_quantized = false;
    std::optional<DType> rounded;
    for (std::size_t done = 0; done < ops.size();) {
      const MatmulOp& op = ops[done];
      if (is_float(op.weight.type) && gemm_ && op.x.rows > kOwnProductRowsMax) {
        library_product(op, rounded);
        ++done;
        continue;
      }
      std::size_t end = done + 1;
      while (end < ops.size() && end - done < cuda::kProductsMax &&
             ops[end].weight.type == op.weight.type) {
        ++end;
      }
      const auto together = ops.subspan(done, end - done);
      if (is_float(op.weight.type)) {
        float_products(together);
      } else {
        if (!is_quantized) quantize(op.x);
        is_quantized = true;
        int8_products(together);
      }
      done = end;
    }
  }

  void rope(const RopeOp& op) override {
    check_op(op);
    enqueue(cuda::rope, cuda::RopeArgs{.x = rows(op.x),
                                       .positions = arguments_.on_device(op.positions),
                                       .cos_sin = const_rows(op.cos_sin),
                                       .rows = op.x.rows,
                                       .cols = op.x.cols,
                                       .head_dim = op.head_dim,
                                       .pairs = op.style == RopeStyle::pairs,
                                       .cache = {},
                                       .first_slot = 0});
  }

  void store(const StoreOp& op) override {
    check_op(op);
    enqueue(cuda::store, cuda::StoreArgs{.x = const_rows(op.x),
                                         .rows = op.x.rows,
                                         .cols = op.x.cols,
                                         .cache = cache(op.cache),
                                         .first_slot = op.first});
  }

  void attention(const AttentionOp& op) override {
    check_op(op);
    static_assert(sizeof(AncestorMask) == cuda::kMaskWords * sizeof(std::uint64_t));
    const cuda::Heads heads = heads_of(op.heads);
    const std::uint32_t tail_slots = reach_of(op.masks);
    const auto* masks = op.masks.empty() ? nullptr : arguments_.on_device(op.masks)->bits.data();
    enqueue(cuda::attention,
            cuda::AttentionArgs{
                .q = const_rows(op.q),
                .keys = cache(op.keys),
                .values = cache(op.values),
                .rows = op.q.rows,
                .prefix = op.prefix,
                .masks = masks,
                .tail_slots = tail_slots,
                .heads = heads,
                .y = rows(op.y),
                .scratch = attention_scratch_.reserve<float>(
                    cuda::attention_scratch_floats(op.q.rows, op.prefix, tail_slots, heads))});
  }

  void group_attention(const GroupAttentionOp& op) override {
    check_op(op);
    EDGEDRAFT_CHECK(op.group_rows <= cuda::kGroupRowsMax);
    enqueue(cuda::group_attention, cuda::GroupAttentionArgs{.q = const_rows(op.q),
                                                            .k = const_rows(op.k),
                                                            .v = const_rows(op.v),
                                                            .groups = op.q.rows / op.group_rows,
                                                            .group_rows = op.group_rows,
                                                            .heads = heads_of(op.heads),
                                                            .y = rows(op.y)});
  }

  void swiglu(const SwigluOp& op) override {
    check_op(op);
    enqueue(cuda::swiglu, cuda::SwigluArgs{.gate = const_rows(op.gate),
                                           .up = const_rows(op.up),
                                           .y = rows(op.y),
                                           .rows = op.y.rows,
                                           .cols = op.y.cols});
  }

  void compact(const CompactOp& op) override {
    check_op(op);
    if (op.slots.empty()) return;
    enqueue(cuda::compact,
            cuda::CompactArgs{.cache = cache(op.cache),
                              .cols = op.cache.cols(),
                              .first = op.first,
                              .slots = arguments_.on_device(op.slots),
                              .slot_count = static_cast<std::uint32_t>(op.slots.size())});
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
                                   .y = rows(op.y)});
  }

  void group_mean(const GroupMeanOp& op) override {
    check_op(op);
    enqueue(cuda::group_mean, cuda::GroupMeanArgs{.x = const_rows(op.x),
                                                  .groups = op.y.rows,
                                                  .group_rows = op.group_rows,
                                                  .cols = op.x.cols,
                                                  .y = rows(op.y)});
  }

  void top_k(const TopKOp& op) override {
    check_op(op);
    const std::size_t count = op.tokens.size();
    const std::size_t stretches =
        std::size_t{op.logits.rows} * cuda::top_k_stretches(op.logits.cols);
    auto* chosen = choice_scratch_.reserve<std::uint32_t>(2 * count);
    enqueue(cuda::top_k, cuda::TopKArgs{.logits = const_rows(op.logits),
                                        .rows = op.logits.rows,
                                        .cols = op.logits.cols,
                                        .k = op.k,
                                        .keys = keys_.reserve<std::uint64_t>(2 * stretches * op.k),
                                        .exp_sums = exp_sums_.reserve<cuda::ExpSum>(stretches),
                                        .tokens = chosen,
                                        .log_probs = reinterpret_cast<float*>(chosen + count)});
    download(op.tokens.data(), chosen, op.tokens.size_bytes());
    download(op.log_probs.data(), chosen + count, op.log_probs.size_bytes());
  }

  void argmax(const ArgmaxOp& op) override {
    check_op(op);
    const std::size_t bytes_count = op.tokens.size() * sizeof(std::uint64_t);
    auto* keys = keys_.reserve<std::uint64_t>(op.tokens.size());
    try_cuda(cudaMemsetAsync(keys, 0, bytes_count, stream_.use()), "clearing memory");
    enqueue(cuda::argmax, cuda::ArgmaxArgs{.logits = const_rows(op.logits),
                                           .rows = op.logits.rows,
                                           .cols = op.logits.cols,
                                           .keys = keys});
    host_keys_.resize(op.tokens.size());
    download(host_keys_.data(), keys, bytes_count);
    std::transform(host_keys_.begin(), host_keys_.end(), op.tokens.begin(), cuda::argmax_token);
  }

 private:
  static constexpr std::size_t kResultsBytes = 256u << 10;

  template <class Args>
  void enqueue(cudaError_t (*launcher)(const Args&, cudaStream_t), const Args& args) {
    try_cuda(launcher(args, stream_.use()), "starting a kernel");
  }

  void wait(const char* what) { try_cuda(cudaStreamSynchronize(stream_.get()), what); }

  // Waits. Through pinned memory, in pieces.
  void download(void* to, const void* from, std::size_t bytes_count) {
    for (std::size_t done = 0; done < bytes_count; done += results_.bytes_count()) {
      const std::size_t piece = std::min(results_.bytes_count(), bytes_count - done);
      try_cuda(cudaMemcpyAsync(results_.data(), static_cast<const std::byte*>(from) + done, piece,
                               cudaMemcpyDeviceToHost, stream_.use()),
               "reading results");
      wait("reading results");
      std::copy_n(results_.data(), piece, static_cast<std::byte*>(to) + done);
    }
  }

  // --- products ---

  static bool same_place(const Matrix& a, const Matrix& b) {
    return a.buffer == b.buffer && a.offset == b.offset && a.rows == b.rows && a.stride == b.stride;
  }

  template <class Args>
  static void set_products(Args& args, std::span<const MatmulOp> ops) {
    args.type = weight_type(ops[0].weight.type);
    args.rows = ops[0].x.rows;
    args.inputs = ops[0].x.cols;
    args.product_count = static_cast<std::uint32_t>(ops.size());
    for (std::size_t i = 0; i < ops.size(); ++i) {
      args.products[i] = {.weight = matrix_data(ops[i].weight),
                          .bias = f32_data(ops[i].bias),
                          .y = rows(ops[i].y),
                          .outputs = ops[i].weight.rows,
                          .accumulate = ops[i].into == MatmulOp::Into::accumulate};
    }
  }

  void float_products(std::span<const MatmulOp> ops) {
    cuda::MatmulArgs args{};
    args.x = const_rows(ops[0].x);
    set_products(args, ops);
    enqueue(cuda::matmul, args);
  }

  void quantize(const Matrix& x) {
    const std::uint64_t stretches = std::uint64_t{x.rows} * cuda::stretches(x.cols);
    quantized_ = {.values = int8_values_.reserve<std::byte>(stretches * cuda::kStretch),
                  .scales = int8_scales_.reserve<float>(stretches),
                  .sums = int8_sums_.reserve<std::int32_t>(stretches * 4)};
    enqueue(cuda::quantize, cuda::QuantizeArgs{.x = const_rows(x),
                                               .rows = x.rows,
                                               .cols = x.cols,
                                               .values = quantized_.values,
                                               .scales = quantized_.scales,
                                               .sums = quantized_.sums});
  }

  void int8_products(std::span<const MatmulOp> ops) {
    cuda::Int8MatmulArgs args{};
    args.values = quantized_.values;
    args.scales = quantized_.scales;
    args.sums = quantized_.sums;
    set_products(args, ops);
    enqueue(cuda::int8_matmul, args);
  }

  // `rounded`: the type in which x already stands in rounded_.
  void library_product(const MatmulOp& op, std::optional<DType>& rounded) {
    const bool is_16_bits = op.weight.type != DType::f32;
    const void* x = data(op.x);
    if (is_16_bits) {
      auto* y = rounded_.reserve<std::uint16_t>(std::uint64_t{op.x.rows} * op.x.cols);
      x = y;
      if (rounded != op.weight.type) {
        enqueue(cuda::round_rows, cuda::RoundRowsArgs{.x = const_rows(op.x),
                                                      .type = weight_type(op.weight.type),
                                                      .rows = op.x.rows,
                                                      .cols = op.x.cols,
                                                      .y = y});
        rounded = op.weight.type;
      }
    }
    bool accumulate = op.into == MatmulOp::Into::accumulate;
    if (op.bias) {
      enqueue(cuda::add_bias, cuda::BiasArgs{.bias = f32_data(op.bias),
                                             .y = rows(op.y),
                                             .rows = op.y.rows,
                                             .cols = op.y.cols,
                                             .accumulate = accumulate});
      accumulate = true;
    }
    stream_.use();
    gemm_->multiply({.type = weight_type(op.weight.type),
                     .x = x,
                     .x_stride = is_16_bits ? op.x.cols : op.x.stride,
                     .weight = matrix_data(op.weight),
                     .y = rows(op.y),
                     .rows = op.x.rows,
                     .inputs = op.x.cols,
                     .outputs = op.weight.rows,
                     .accumulate = accumulate});
  }

  // --- device pointers, checked against their buffers ---

  static float* data(const Matrix& m) {
    EDGEDRAFT_CHECK(m.buffer != nullptr);
    EDGEDRAFT_CHECK(m.stride >= m.cols);
    const auto& buffer = static_cast<const CudaBuffer&>(*m.buffer);
    const std::uint64_t extent = m.rows == 0 ? 0 : (m.rows - 1) * m.stride + m.cols;
    EDGEDRAFT_CHECK(m.offset + extent <= buffer.bytes_count() / sizeof(float));
    return buffer.as<float>() + m.offset;
  }
  static std::byte* data(const CacheRows& m) {
    EDGEDRAFT_CHECK(m.buffer != nullptr);
    EDGEDRAFT_CHECK(m.stride >= m.cols);
    const auto& buffer = static_cast<const CudaBuffer&>(*m.buffer);
    const std::uint64_t extent = m.rows == 0 ? 0 : (m.rows - 1) * m.stride + m.cols;
    EDGEDRAFT_CHECK(m.offset + extent <= buffer.bytes_count() / cache_bytes(m.type, 1));
    return buffer.data() + cache_bytes(m.type, m.offset);
  }
  static cuda::Rows rows(const Matrix& m) { return {data(m), m.stride}; }
  static cuda::ConstRows const_rows(const Matrix& m) { return {data(m), m.stride}; }
  cuda::Cache cache(const CacheView& view) {
    return {.data = data(view.memory),
            .type = cache_type(view.memory.type),
            .stride = view.memory.stride,
            .pages = view.paged() ? arguments_.on_device(view.pages) : nullptr,
            .page_slots = view.page_slots};
  }

  // In file order; null for an absent weight.
  static const std::byte* data(const Weight& w) {
    if (!w) return nullptr;
    const auto& buffer = static_cast<const CudaBuffer&>(*w.buffer);
    EDGEDRAFT_CHECK(!buffer.packed);
    const auto row = row_bytes(w.type, w.cols);
    EDGEDRAFT_CHECK(row.has_value());
    EDGEDRAFT_CHECK(w.offset_bytes <= buffer.bytes_count());
    EDGEDRAFT_CHECK(w.rows == 0 || *row <= (buffer.bytes_count() - w.offset_bytes) / w.rows);
    return buffer.data() + w.offset_bytes;
  }
  static const float* f32_data(const Weight& w) {
    if (!w) return nullptr;
    EDGEDRAFT_CHECK(w.type == DType::f32);
    return reinterpret_cast<const float*>(data(w));
  }
  // A weight of a product, in whatever order its type is kept in.
  static const std::byte* matrix_data(const Weight& w) {
    if (is_float(w.type)) {
      EDGEDRAFT_CHECK(w.offset_bytes % 16 == 0);
      return data(w);
    }
    const auto& buffer = static_cast<const CudaBuffer&>(*w.buffer);
    EDGEDRAFT_CHECK(buffer.packed);
    EDGEDRAFT_CHECK(w.offset_bytes == 0);
    EDGEDRAFT_CHECK(buffer.bytes_count() ==
                    cuda::packed_layout(weight_type(w.type), w.rows, w.cols).total);
    return buffer.data();
  }

  struct Quantized {
    std::byte* values;
    float* scales;
    std::int32_t* sums;
  };

  CudaBackendOptions options_;
  CudaStream stream_;
  CudaArguments arguments_;
  CudaUploader uploader_;
  PinnedMemory results_;
  std::unique_ptr<CudaGemm> gemm_;  // null in deterministic mode
  CudaScratch attention_scratch_{stream_.get()};
  CudaScratch int8_values_{stream_.get()};
  CudaScratch int8_scales_{stream_.get()};
  CudaScratch int8_sums_{stream_.get()};
  CudaScratch rounded_{stream_.get()};
  CudaScratch keys_{stream_.get()};
  CudaScratch exp_sums_{stream_.get()};
  CudaScratch choice_scratch_{stream_.get()};
  Quantized quantized_{};
  // Kept so that calls do not allocate.
  std::vector<cuda::Cache> layers_;
  std::vector<std::uint64_t> host_keys_;
  Bytes stored_;
};

}  // namespace

Result<std::vector<CudaDevice>> cuda_devices() {
  int count = 0;
  if (const cudaError_t status = cudaGetDeviceCount(&count); status != cudaSuccess) {
    static_cast<void>(cudaGetLastError());
    return Error{Errc::unsupported, std::string("no CUDA device: ") + cudaGetErrorString(status) +
                                        ". nvidia-smi shows whether the driver works"};
  }
  std::vector<CudaDevice> devices;
  std::string too_old;
  for (int index = 0; index < count; ++index) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, index) != cudaSuccess) continue;
    const int capability = 10 * properties.major + properties.minor;
    if (capability < kCapabilityMin) {
      too_old += std::string(", ") + properties.name;
      continue;
    }
    devices.push_back({.index = index,
                       .name = properties.name,
                       .memory_bytes = properties.totalGlobalMem,
                       .capability = capability});
  }
  if (devices.empty()) {
    return Error{Errc::unsupported, "no CUDA device of compute capability 7.5 or newer" + too_old};
  }
  return devices;
}

std::unique_ptr<Backend> make_cuda_backend(const CudaBackendOptions& options) {
  return std::make_unique<CudaBackend>(options);
}

}  // namespace edgedraft
