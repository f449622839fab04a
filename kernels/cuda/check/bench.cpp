#include <numeric>

#include "kernels/cuda/check/support.h"

// Each kernel at the sizes of Llama 3 8B: time, minimum bytes moved, and their rate relative to a
// device-to-device copy. Weights rotate through copies that together exceed the cache.
namespace edgedraft::cuda::check {
namespace {

constexpr int kRepeats = 11;
constexpr int kLaunches = 32;
constexpr std::size_t kCacheBytes = std::size_t{256} << 20;
constexpr std::uint32_t kRowsMax = 128;

class Timer {
 public:
  explicit Timer(bool small) : repeats_(small ? 1 : kRepeats), launches_(small ? 1 : kLaunches) {
    must(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "cudaStreamCreate");
    must(cudaEventCreate(&from_), "cudaEventCreate");
    must(cudaEventCreate(&to_), "cudaEventCreate");
  }
  ~Timer() {
    static_cast<void>(cudaEventDestroy(from_));
    static_cast<void>(cudaEventDestroy(to_));
    static_cast<void>(cudaStreamDestroy(stream_));
  }
  Timer(const Timer&) = delete;
  Timer& operator=(const Timer&) = delete;

  cudaStream_t stream() const { return stream_; }

  // Median time of `launch(n)`, n = 0, 1, ..., on stream(). Many launches form one graph, which
  // excludes host launch overhead.
  template <class Launch>
  double seconds(const Launch& launch) {
    cudaGraph_t graph = nullptr;
    cudaGraphExec_t executable = nullptr;
    must(cudaStreamSynchronize(nullptr), "earlier work");
    must(cudaStreamBeginCapture(stream_, cudaStreamCaptureModeThreadLocal), "capture");
    for (int n = 0; n < launches_; ++n) must(launch(n), "kernel");
    must(cudaStreamEndCapture(stream_, &graph), "capture");
    must(cudaGraphInstantiate(&executable, graph, 0), "cudaGraphInstantiate");
    const double seconds =
        median_seconds([&] { must(cudaGraphLaunch(executable, stream_), "cudaGraphLaunch"); });
    must(cudaGraphExecDestroy(executable), "cudaGraphExecDestroy");
    must(cudaGraphDestroy(graph), "cudaGraphDestroy");
    return seconds / launches_;
  }

  // Time of a single launch: a copy within a graph is slower.
  template <class Start>
  double median_seconds(const Start& start) {
    start();
    std::vector<float> samples(static_cast<std::size_t>(repeats_));
    for (float& sample : samples) {
      must(cudaEventRecord(from_, stream_), "cudaEventRecord");
      start();
      must(cudaEventRecord(to_, stream_), "cudaEventRecord");
      must(cudaEventSynchronize(to_), "kernel");
      must(cudaEventElapsedTime(&sample, from_, to_), "cudaEventElapsedTime");
    }
    std::sort(samples.begin(), samples.end());
    return double{samples[samples.size() / 2]} * 1e-3;
  }

 private:
  int repeats_;
  int launches_;
  cudaStream_t stream_ = nullptr;
  cudaEvent_t from_ = nullptr;
  cudaEvent_t to_ = nullptr;
};

ConstRows in(const Array<float>& a, std::size_t cols) {
  return {a.data(), cols};
}
Rows out(const Array<float>& a, std::size_t cols) {
  return {a.data(), cols};
}

// A matmul kernel and the smallest row count it is timed with.
struct Kernel {
  const char* name;
  ProductKernel kernel;
  std::uint32_t rows_min;
};

class Bench {
 public:
  Bench(bool small, std::string only) : small_(small), only_(std::move(only)), timer_(small) {
    const std::size_t bytes = std::size_t{1} << (small ? 20 : 30);
    const Array<std::byte> from(bytes);
    const Array<std::byte> to(bytes);
    const double seconds = timer_.median_seconds([&] {
      must(
          cudaMemcpyAsync(to.data(), from.data(), bytes, cudaMemcpyDeviceToDevice, timer_.stream()),
          "copy");
    });
    copy_rate_ = 2.0 * static_cast<double>(bytes) / seconds;
    std::printf("Device-to-device copy, bytes read and written: %.0f GB/s.\n\n", copy_rate_ * 1e-9);
  }

  // Times each of the matmul kernels on one weight shape.
  void products(DType type, std::uint32_t inputs, std::uint32_t outputs,
                const std::vector<Kernel>& kernels) {
    const std::string shape = std::string("matmul ") + traits(type).name + ", " +
                              std::to_string(inputs) + " to " + std::to_string(outputs);
    if (std::none_of(kernels.begin(), kernels.end(),
                     [&](const Kernel& kernel) { return wants(shape + kernel.name); })) {
      return;
    }
    const auto weight = random_weight(type, outputs, inputs, 1);
    const std::size_t bytes =
        is_float(type) ? weight.size() : packed_layout(type, outputs, inputs).total;
    const int copies =
        static_cast<int>(small_ ? 1 : std::max<std::size_t>(1, 2 * kCacheBytes / bytes));
    const Array<std::byte> file_order(weight);
    const Array<std::byte> weights(bytes * static_cast<std::size_t>(copies));
    for (int i = 0; i < copies; ++i) {
      std::byte* to = weights.data() + bytes * static_cast<std::size_t>(i);
      if (is_float(type)) {
        must(cudaMemcpyAsync(to, file_order.data(), bytes, cudaMemcpyDeviceToDevice, nullptr),
             "cudaMemcpyAsync");
      } else {
        must(pack_weight({type, file_order.data(), outputs, inputs, to}, nullptr), "pack_weight");
      }
    }
    const Array<float> x(numbers(2, std::size_t{128} * inputs));
    const Array<float> y(std::size_t{128} * outputs);
    const Array<std::byte> values(std::size_t{128} * groups(inputs) * kGroup);
    const Array<float> scales(std::size_t{128} * groups(inputs));
    const Array<float> sums(std::size_t{128} * groups(inputs) * 4);
    for (const std::uint32_t rows : widths()) {
      if (!is_float(type)) {
        must(quantize({in(x, inputs), rows, inputs, values.data(), scales.data(), sums.data()},
                      nullptr),
             "quantize");
      }
      for (const Kernel& kernel : kernels) {
        const std::string name = shape + kernel.name;
        if (!wants(name) || rows < kernel.rows_min) continue;
        const double seconds = timer_.seconds([&](int n) {
          const std::byte* w = weights.data() + bytes * static_cast<std::size_t>(n % copies);
          const Product product{w, nullptr, out(y, outputs), outputs, false};
          if (is_float(type)) {
            return matmul({in(x, inputs), type, kernel.kernel, rows, inputs, 1, {product}},
                          timer_.stream());
          }
          return int8_matmul({values.data(),
                              scales.data(),
                              sums.data(),
                              type,
                              kernel.kernel,
                              rows,
                              inputs,
                              1,
                              {},
                              {product}},
                             timer_.stream());
        });
        const double moved = static_cast<double>(bytes) +
                             rows * (inputs * (is_float(type) ? 4.0 : 1.03) + outputs * 4.0);
        line(name, rows, seconds, moved);
      }
    }
  }

  void quantizing(std::uint32_t cols) {
    const std::string name = "quantize " + std::to_string(cols);
    if (!wants(name)) return;
    const Array<float> x(numbers(1, std::size_t{128} * cols));
    const Array<std::byte> values(std::size_t{128} * groups(cols) * kGroup);
    const Array<float> scales(std::size_t{128} * groups(cols));
    const Array<float> sums(std::size_t{128} * groups(cols) * 4);
    for (const std::uint32_t rows : widths()) {
      const double seconds = timer_.seconds([&](int) {
        return quantize({in(x, cols), rows, cols, values.data(), scales.data(), sums.data()},
                        timer_.stream());
      });
      line(name, rows, seconds, rows * cols * 5.1);
    }
  }

  // `tiles`: times the default kernel; otherwise the one without matrix instructions.
  void attending(DType type, std::uint32_t prefix, bool tiles) {
    const std::string name = std::string("attention ") + traits(type).name + ", prefix " +
                             std::to_string(prefix) + (tiles ? "" : ", no matrix units");
    if (!wants(name)) return;
    const Heads heads{8, 4, 128};
    const std::uint32_t kv_cols = heads.kv_heads * heads.head_dim;
    const std::uint32_t query_cols = kv_cols * heads.group;
    const std::size_t element = type == DType::f32 ? 4 : 2;
    const std::size_t cache_bytes = std::size_t{prefix + 128} * kv_cols * element;
    const int copies =
        static_cast<int>(small_ ? 1 : std::max<std::size_t>(1, kCacheBytes / cache_bytes));
    const Array<std::byte> caches(2 * cache_bytes * static_cast<std::size_t>(copies));
    must(cudaMemsetAsync(caches.data(), 0x11, caches.count(), nullptr), "cudaMemsetAsync");
    const Array<float> q(numbers(1, std::size_t{128} * query_cols));
    const Array<float> y(q.count());
    std::vector<std::uint64_t> masks(128 * kMaskWords);
    for (std::uint32_t r = 0; r < 128; ++r) {
      for (std::uint32_t j = 0; j <= r; ++j)
        masks[r * kMaskWords + j / 64] |= std::uint64_t{1} << j % 64;
    }
    for (const std::uint32_t rows : widths()) {
      const Attention call({{rows, prefix, rows, masks.data(), nullptr, 0}}, heads, tiles);
      const double seconds = timer_.seconds([&](int n) {
        std::byte* keys = caches.data() + 2 * cache_bytes * static_cast<std::size_t>(n % copies);
        return attention(
            call.args(in(q, query_cols), {keys, type, kv_cols, nullptr, 0},
                      {keys + cache_bytes, type, kv_cols, nullptr, 0}, out(y, query_cols)),
            timer_.stream());
      });
      line(
          name, rows, seconds,
          2.0 * (prefix + rows) * kv_cols * static_cast<double>(element) + 8.0 * rows * query_cols);
    }
  }

  void row_operations() {
    const std::uint32_t dim = 4096;
    const std::uint32_t ffn = 14336;
    const std::uint32_t vocabulary = small_ ? 3000 : 128256;
    const Array<float> x(numbers(1, std::size_t{128} * ffn));
    const Array<float> y(numbers(2, x.count()));
    const Array<float> weight(numbers(3, dim));
    for (const std::uint32_t rows : widths("rms_norm 4096")) {
      line("rms_norm 4096", rows, timer_.seconds([&](int) {
        return rms_norm({in(x, dim), weight.data(), out(y, dim), rows, dim, 1e-5f},
                        timer_.stream());
      }),
           8.0 * rows * dim);
    }
    for (const std::uint32_t rows : widths("gate 14336")) {
      line("gate 14336", rows, timer_.seconds([&](int) {
        return gate({in(x, ffn), in(y, ffn), out(y, ffn), rows, ffn, Activation::silu, false},
                    timer_.stream());
      }),
           12.0 * rows * ffn);
    }
    const Array<std::byte> values(std::size_t{kRowsMax} * groups(ffn) * kGroup);
    const Array<float> scales(std::size_t{kRowsMax} * groups(ffn));
    const Array<float> sums(std::size_t{kRowsMax} * groups(ffn) * 4);
    const QuantizedRows rounded{values.data(), scales.data(), sums.data()};
    constexpr double kRoundedBytes = 1.0 + 20.0 / kGroup;  // per element
    for (const std::uint32_t rows : widths("rms_norm_quantize 4096")) {
      line("rms_norm_quantize 4096", rows, timer_.seconds([&](int) {
        return rms_norm_quantize({in(x, dim), weight.data(), rounded, rows, dim, 1e-5f},
                                 timer_.stream());
      }),
           (4.0 + kRoundedBytes) * rows * dim);
    }
    for (const std::uint32_t rows : widths("gate_quantize 14336")) {
      line("gate_quantize 14336", rows, timer_.seconds([&](int) {
        return gate_quantize({in(x, ffn), in(y, ffn), rounded, rows, ffn, Activation::silu, false},
                             timer_.stream());
      }),
           (8.0 + kRoundedBytes) * rows * ffn);
    }
    constexpr std::uint32_t kHeadDim = 128;
    constexpr std::uint32_t kKvCols = 1024;
    const Array<float> cos_sin(numbers(5, std::size_t{kRowsMax} * kHeadDim));
    std::vector<std::uint32_t> ascending(kRowsMax);
    std::iota(ascending.begin(), ascending.end(), 0u);
    const Array<std::uint32_t> places(ascending);
    const Array<std::byte> cache(std::size_t{2} * kRowsMax * kKvCols * 2);
    const StorePart keys{in(y, kKvCols), cache.data(), 2 * kKvCols};
    const StorePart of_values{in(y, kKvCols), cache.data() + 2 * kKvCols, 2 * kKvCols};
    for (const std::uint32_t rows : widths("rope_store f16, 4096 and 1024")) {
      line("rope_store f16, 4096 and 1024", rows, timer_.seconds([&](int) {
        return rope_store({out(x, dim), dim, keys, of_values, kKvCols, DType::f16, places.data(),
                           places.data(), in(cos_sin, kHeadDim), rows, kHeadDim, true},
                          timer_.stream());
      }),
           rows * (8.0 * dim + 12.0 * kKvCols));
    }
    const Array<float> logits(numbers(4, std::size_t{128} * vocabulary));
    const Array<std::uint64_t> best(128);
    for (const std::uint32_t rows : widths("argmax of the vocabulary")) {
      line("argmax of the vocabulary", rows, timer_.seconds([&](int) {
        return argmax({in(logits, vocabulary), rows, vocabulary, best.data()}, timer_.stream());
      }),
           4.0 * rows * vocabulary);
    }
    constexpr std::uint32_t kK = 10;
    const Array<std::uint64_t> scratch(top_k_scratch_words(128, vocabulary, kK));
    const Array<std::uint32_t> tokens(128 * kK);
    const Array<float> log_probs(128 * kK);
    for (const std::uint32_t rows : widths("top_k, 10 of the vocabulary")) {
      line("top_k, 10 of the vocabulary", rows, timer_.seconds([&](int) {
        return top_k({in(logits, vocabulary), rows, vocabulary, kK, scratch.data(), scratch.count(),
                      tokens.data(), log_probs.data()},
                     timer_.stream());
      }),
           4.0 * rows * vocabulary);
    }
  }

  double copy_rate() const { return copy_rate_; }
  bool wants(const std::string& kernel) const { return kernel.find(only_) != std::string::npos; }

  static void head() {
    std::printf("| kernel | rows | microseconds | GB/s | share of copy |\n|---|---|---|---|---|\n");
  }

 private:
  void line(const std::string& kernel, std::uint32_t rows, double seconds, double bytes) const {
    std::printf("| %s | %u | %.1f | %.0f | %.0f %% |\n", kernel.c_str(), rows, seconds * 1e6,
                bytes / seconds * 1e-9, 100.0 * bytes / seconds / copy_rate_);
    std::fflush(stdout);
  }

  std::vector<std::uint32_t> widths(const std::string& kernel) const {
    return wants(kernel) ? widths() : std::vector<std::uint32_t>();
  }
  std::vector<std::uint32_t> widths() const {
    if (small_) return {1, 17};
    return {1, 2, 4, 8, 16, 32, 64, kRowsMax};
  }

  bool small_;
  std::string only_;
  Timer timer_;
  double copy_rate_ = 1.0;
};

}  // namespace

void run_bench(bool small, const std::string& only) {
  Bench bench(small, only);
  Bench::head();
  struct Shape {
    std::uint32_t inputs;
    std::uint32_t outputs;
  };
  const std::vector<Shape> shapes =
      small ? std::vector<Shape>{{256, 64}}
            : std::vector<Shape>{{4096, 1024}, {4096, 4096}, {4096, 14336}, {14336, 4096}};
  const std::vector<Kernel> chosen = {{"", ProductKernel::by_shape, 1}};
  const std::vector<Kernel> all = {{", narrow", ProductKernel::narrow, 16},
                                   {", few outputs", ProductKernel::few_outputs, 16},
                                   {", many outputs", ProductKernel::many_outputs, 16}};
  for (const DType type :
       {DType::bf16, DType::f16, DType::q8_0, DType::q4_0, DType::q4_k, DType::q5_k, DType::q6_k}) {
    for (const Shape s : shapes) bench.products(type, s.inputs, s.outputs, chosen);
  }
  if (!small) bench.products(DType::bf16, 4096, 128256, chosen);
  // All kernels, to check the selection in products.cuh.
  for (const DType type : {DType::bf16, DType::q8_0, DType::q4_0, DType::q4_k}) {
    for (const Shape s : shapes) bench.products(type, s.inputs, s.outputs, all);
  }
  bench.quantizing(small ? 256 : 4096);
  for (const DType type : {DType::f32, DType::f16, DType::bf16}) {
    for (const std::uint32_t prefix : {256u, 2048u, 8192u, 32768u}) {
      if (!small || prefix == 256) bench.attending(type, prefix, true);
    }
  }
  for (const std::uint32_t prefix : {256u, 8192u}) {
    if (!small) bench.attending(DType::f32, prefix, false);
  }
  bench.row_operations();
  if (bench.wants("passes")) run_passes(small, bench.copy_rate());
}

}  // namespace edgedraft::cuda::check
