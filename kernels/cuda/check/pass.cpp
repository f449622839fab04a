#include <cublas_v2.h>

#include <map>

#include "kernels/cuda/check/support.h"

// Whole passes of a decoder shaped like Llama 3 8B with BF16 weights: the kernels in the order of
// the server's backend. Targets: one row at 75 % of the copy rate, 64 rows in 1.25 times the time
// of one, 256 rows in 1.6 times.
namespace edgedraft::cuda::check {
namespace {

struct Shape {
  std::uint32_t layers;
  std::uint32_t dim;
  std::uint32_t ffn;
  std::uint32_t vocabulary;
  Heads heads;

  std::uint32_t kv_cols() const { return heads.kv_heads * heads.head_dim; }
  // Weights per layer.
  std::size_t layer_weights() const {
    return std::size_t{2} * dim * (dim + kv_cols()) + std::size_t{3} * dim * ffn;
  }
};
constexpr Shape kLlama3{32, 4096, 14336, 128256, {8, 4, 128}};
constexpr Shape kSmall{1, 128, 192, 500, {2, 2, 32}};

constexpr std::uint32_t kPrefix = 512;
constexpr std::uint32_t kRowsMax = 256;
constexpr std::uint32_t kOwnRowsMax = 16;  // equal to server/cuda/cuda_backend.h
constexpr std::size_t kWorkspaceBytes = 32u << 20;

void must_be(cublasStatus_t status, const char* what) {
  if (status == CUBLAS_STATUS_SUCCESS) return;
  std::fprintf(stderr, "%s: %s\n", what, cublasGetStatusString(status));
  std::exit(1);
}

struct Matrix {
  const std::byte* weight;
  std::uint32_t inputs;
  std::uint32_t outputs;
};
struct Layer {
  Matrix q, k, v, o, gate, up, down;
  Cache keys, values;
};

class Decoder {
 public:
  explicit Decoder(const Shape& shape)
      : shape_(shape),
        weights_(shape.layer_weights() * shape.layers * 2 +
                 std::size_t{shape.vocabulary} * shape.dim * 2),
        caches_(std::size_t{shape.layers} * 2 * (kPrefix + kRowsMax) * shape_.kv_cols()),
        x_(numbers(1, std::size_t{kRowsMax} * shape_.dim)),
        normed_(x_.count()),
        q_(x_.count()),
        k_(std::size_t{kRowsMax} * shape_.kv_cols()),
        v_(k_.count()),
        gate_(std::size_t{kRowsMax} * shape_.ffn),
        up_(gate_.count()),
        logits_(std::size_t{kRowsMax} * shape.vocabulary),
        rounded_(std::size_t{kRowsMax} * shape_.ffn),
        keys_(kRowsMax),
        norm_(std::vector<float>(shape_.dim, 1.0f)),
        cos_sin_(numbers(2, std::size_t{kPrefix + kRowsMax} * shape_.heads.head_dim)),
        positions_(ascending(kRowsMax)),
        masks_(causal(kRowsMax)),
        places_(ascending(kRowsMax)),
        workspace_(kWorkspaceBytes) {
    must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    must_be(cublasCreate(&cublas_), "cublasCreate");
    must_be(cublasSetStream(cublas_, stream_), "cublasSetStream");
    must_be(cublasSetWorkspace(cublas_, workspace_.data(), kWorkspaceBytes), "cublasSetWorkspace");
    fill();
    for (std::uint32_t i = 0; i < shape.layers; ++i) layers_.push_back(next_layer(i));
    head_ = next_matrix(shape_.dim, shape_.vocabulary);
  }
  ~Decoder() {
    static_cast<void>(cublasDestroy(cublas_));
    static_cast<void>(cudaStreamDestroy(stream_));
  }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  std::size_t weight_bytes() const { return weights_.count(); }
  cudaStream_t stream() const { return stream_; }

  // Starts a pass of `rows` rows, with wide matmuls by the library if `library`.
  void pass(std::uint32_t rows, bool library) {
    const Rows x{x_.data(), shape_.dim};
    for (const Layer& layer : layers_) {
      norm(rows);
      products(
          rows, library, normed_, shape_.dim,
          {{layer.q, q_.data(), false}, {layer.k, k_.data(), false}, {layer.v, v_.data(), false}});
      rotate_and_keep(rows, layer);
      must(attention(attention_of(rows).args({q_.data(), shape_.dim}, layer.keys, layer.values,
                                             {normed_.data(), shape_.dim}),
                     stream_),
           "attention");
      products(rows, library, normed_, shape_.dim, {{layer.o, x.data, true}});
      norm(rows);
      products(rows, library, normed_, shape_.dim,
               {{layer.gate, gate_.data(), false}, {layer.up, up_.data(), false}});
      must(gate({{gate_.data(), shape_.ffn},
                 {up_.data(), shape_.ffn},
                 {gate_.data(), shape_.ffn},
                 rows,
                 shape_.ffn,
                 Activation::silu,
                 false},
                stream_),
           "gate");
      products(rows, library, gate_, shape_.ffn, {{layer.down, x.data, true}});
    }
    norm(rows);
    products(rows, library, normed_, shape_.dim, {{head_, logits_.data(), false}});
    must(cudaMemsetAsync(keys_.data(), 0, kRowsMax * sizeof(std::uint64_t), stream_),
         "cudaMemsetAsync");
    must(argmax({{logits_.data(), shape_.vocabulary}, rows, shape_.vocabulary, keys_.data()},
                stream_),
         "argmax");
  }

 private:
  struct Output {
    Matrix matrix;
    float* y;
    bool accumulate;
  };

  static std::vector<std::uint32_t> ascending(std::uint32_t count) {
    std::vector<std::uint32_t> positions(count);
    for (std::uint32_t i = 0; i < count; ++i) positions[i] = kPrefix + i;
    return positions;
  }
  static std::vector<std::uint64_t> causal(std::uint32_t count) {
    std::vector<std::uint64_t> masks(count * kMaskWords);
    for (std::uint32_t r = 0; r < count; ++r) {
      for (std::uint32_t j = 0; j <= r; ++j) {
        masks[r * kMaskWords + j / 64] |= std::uint64_t{1} << j % 64;
      }
    }
    return masks;
  }

  // Random weights, small so that activations stay finite: one segment repeated, shifted.
  void fill() {
    auto pattern = random_weight(DType::bf16, 4099, 4096, 3);
    for (std::size_t i = 1; i < pattern.size(); i += 2) {
      // Exponents lowered by 8: the exponent's upper seven bits less 4.
      pattern[i] = static_cast<std::byte>(static_cast<unsigned>(pattern[i]) - 4);
    }
    const Array<std::byte> piece(pattern);
    for (std::size_t at = 0; at < weights_.count(); at += pattern.size()) {
      const std::size_t bytes = std::min(pattern.size(), weights_.count() - at);
      must(cudaMemcpyAsync(weights_.data() + at, piece.data(), bytes, cudaMemcpyDeviceToDevice,
                           stream_),
           "cudaMemcpyAsync");
    }
    must(cudaMemsetAsync(caches_.data(), 0x11, caches_.count() * sizeof(float), stream_),
         "cudaMemsetAsync");
    must(cudaStreamSynchronize(stream_), "filling");
  }

  Matrix next_matrix(std::uint32_t inputs, std::uint32_t outputs) {
    const std::byte* weight = weights_.data() + used_;
    used_ += std::size_t{inputs} * outputs * 2;
    return {weight, inputs, outputs};
  }
  Cache cache(std::size_t index) {
    return {reinterpret_cast<std::byte*>(caches_.data() +
                                         index * (kPrefix + kRowsMax) * shape_.kv_cols()),
            DType::f32, shape_.kv_cols(), nullptr, 0};
  }
  Layer next_layer(std::uint32_t i) {
    Layer layer{};
    layer.q = next_matrix(shape_.dim, shape_.dim);
    layer.k = next_matrix(shape_.dim, shape_.kv_cols());
    layer.v = next_matrix(shape_.dim, shape_.kv_cols());
    layer.o = next_matrix(shape_.dim, shape_.dim);
    layer.gate = next_matrix(shape_.dim, shape_.ffn);
    layer.up = next_matrix(shape_.dim, shape_.ffn);
    layer.down = next_matrix(shape_.ffn, shape_.dim);
    layer.keys = cache(2 * std::size_t{i});
    layer.values = cache(2 * std::size_t{i} + 1);
    return layer;
  }

  void norm(std::uint32_t rows) {
    must(rms_norm({{x_.data(), shape_.dim},
                   norm_.data(),
                   {normed_.data(), shape_.dim},
                   rows,
                   shape_.dim,
                   1e-5f},
                  stream_),
         "rms_norm");
  }
  void rotate_and_keep(std::uint32_t rows, const Layer& layer) {
    const auto part = [&](const Array<float>& x, const Cache& to) {
      return StorePart{{x.data(), shape_.kv_cols()}, to.data, to.stride};
    };
    must(rope_store({{q_.data(), shape_.dim},
                     shape_.dim,
                     part(k_, layer.keys),
                     part(v_, layer.values),
                     shape_.kv_cols(),
                     layer.keys.type,
                     positions_.data(),
                     places_.data(),
                     {cos_sin_.data(), shape_.heads.head_dim},
                     rows,
                     shape_.heads.head_dim,
                     shape_.heads.head_dim,
                     true},
                    stream_),
         "rope_store");
  }
  // Planned before a graph of the same width is created.
  const Attention& attention_of(std::uint32_t rows) {
    const auto found = attentions_.find(rows);
    if (found != attentions_.end()) return found->second;
    const std::vector<AttentionPart> parts{{rows, kPrefix, rows, masks_.data(), nullptr, 0}};
    return attentions_.try_emplace(rows, parts, shape_.heads).first->second;
  }

  void products(std::uint32_t rows, bool library, const Array<float>& x, std::uint32_t inputs,
                const std::vector<Output>& outputs) {
    if (library && rows > kOwnRowsMax) {
      must(round_rows({{x.data(), inputs}, DType::bf16, rows, inputs, rounded_.data()}, stream_),
           "round_rows");
      for (const Output& output : outputs) {
        const float one = 1.0f;
        const float keep_old = output.accumulate ? 1.0f : 0.0f;
        const int m = static_cast<int>(output.matrix.outputs);
        const int k = static_cast<int>(inputs);
        must_be(cublasGemmEx(cublas_, CUBLAS_OP_T, CUBLAS_OP_N, m, static_cast<int>(rows), k, &one,
                             output.matrix.weight, CUDA_R_16BF, k, rounded_.data(), CUDA_R_16BF, k,
                             &keep_old, output.y, CUDA_R_32F, m, CUBLAS_COMPUTE_32F,
                             CUBLAS_GEMM_DEFAULT),
                "cublasGemmEx");
      }
      return;
    }
    MatmulArgs args{};
    args.x = {x.data(), inputs};
    args.type = DType::bf16;
    args.rows = rows;
    args.inputs = inputs;
    for (const Output& output : outputs) {
      args.products[args.product_count++] = {output.matrix.weight,
                                             nullptr,
                                             {output.y, output.matrix.outputs},
                                             output.matrix.outputs,
                                             output.accumulate};
    }
    must(matmul(args, stream_), "matmul");
  }

  Shape shape_;
  Array<std::byte> weights_;
  std::size_t used_ = 0;
  Array<float> caches_;
  Array<float> x_, normed_, q_, k_, v_, gate_, up_, logits_;
  Array<std::uint16_t> rounded_;
  Array<std::uint64_t> keys_;
  Array<float> norm_, cos_sin_;
  Array<std::uint32_t> positions_;
  std::vector<std::uint64_t> masks_;
  Array<std::uint32_t> places_;                    // places of rows in caches
  std::map<std::uint32_t, Attention> attentions_;  // by row count
  Array<std::byte> workspace_;
  std::vector<Layer> layers_;
  Matrix head_{};
  cudaStream_t stream_ = nullptr;
  cublasHandle_t cublas_ = nullptr;
};

// Median milliseconds of `start`, by the device's clock.
template <class Start>
double milliseconds(cudaStream_t stream, int repeats, const Start& start) {
  cudaEvent_t from = nullptr;
  cudaEvent_t to = nullptr;
  must(cudaEventCreate(&from), "cudaEventCreate");
  must(cudaEventCreate(&to), "cudaEventCreate");
  start();
  start();
  std::vector<float> samples(static_cast<std::size_t>(repeats));
  for (float& sample : samples) {
    must(cudaEventRecord(from, stream), "cudaEventRecord");
    start();
    must(cudaEventRecord(to, stream), "cudaEventRecord");
    must(cudaEventSynchronize(to), "pass");
    must(cudaEventElapsedTime(&sample, from, to), "cudaEventElapsedTime");
  }
  must(cudaEventDestroy(from), "cudaEventDestroy");
  must(cudaEventDestroy(to), "cudaEventDestroy");
  std::sort(samples.begin(), samples.end());
  return double{samples[samples.size() / 2]};
}

}  // namespace

void run_passes(bool small, double copy_rate) {
  Decoder decoder(small ? kSmall : kLlama3);
  const int repeats = small ? 1 : 15;
  const std::vector<std::uint32_t> widths =
      small ? std::vector<std::uint32_t>{1, 17}
            : std::vector<std::uint32_t>{1, 2, 4, 8, 16, 32, 64, 128, 256};
  std::printf(
      "\nWhole passes, %.2f GB of BF16 weights, %u tokens of context, float32 cache; `graph`: "
      "all launches in one CUDA graph.\n\n"
      "| matmuls | rows | ms | relative to 1 row | weight bandwidth, share of copy |\n"
      "|---|---|---|---|---|\n",
      static_cast<double>(decoder.weight_bytes()) * 1e-9, kPrefix);
  double single = 0.0;
  const auto line = [&](const char* mode, std::uint32_t rows, double ms) {
    if (single == 0.0) single = ms;
    std::printf("| %s | %u | %.3f | %.2f | %.0f %% |\n", mode, rows, ms, ms / single,
                100.0 * static_cast<double>(decoder.weight_bytes()) / (ms * 1e-3) / copy_rate);
    std::fflush(stdout);
  };
  for (const bool library : {true, false}) {
    for (const std::uint32_t rows : widths) {
      if (!library && rows <= kOwnRowsMax) continue;  // same as above
      const double ms =
          milliseconds(decoder.stream(), repeats, [&] { decoder.pass(rows, library); });
      line(library && rows > kOwnRowsMax ? "cuBLAS" : "own", rows, ms);
    }
  }
  for (const std::uint32_t rows :
       small ? std::vector<std::uint32_t>{1, 17} : std::vector<std::uint32_t>{1, 8, 64}) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    must(cudaStreamBeginCapture(decoder.stream(), cudaStreamCaptureModeThreadLocal), "capture");
    decoder.pass(rows, true);
    must(cudaStreamEndCapture(decoder.stream(), &graph), "capture");
    must(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
    const double ms = milliseconds(decoder.stream(), repeats, [&] {
      must(cudaGraphLaunch(executable, decoder.stream()), "cudaGraphLaunch");
    });
    line(rows > kOwnRowsMax ? "cuBLAS, graph" : "own, graph", rows, ms);
    must(cudaGraphExecDestroy(executable), "cudaGraphExecDestroy");
    must(cudaGraphDestroy(graph), "cudaGraphDestroy");
  }
}

}  // namespace edgedraft::cuda::check
