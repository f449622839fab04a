#include <functional>
#include <numeric>

#include "kernels/cuda/check/checks.h"

namespace edgedraft::cuda::check {

void check_embed(Report& report, DType type) {
  const Sizes& sizes = report.sizes();
  const std::uint32_t vocabulary = 1000;
  const auto table = random_weight(type, vocabulary, sizes.dim, 1);
  const Array<std::byte> table_on_device(table);
  std::vector<std::uint32_t> tokens(64);
  Random random(2);
  for (std::uint32_t& token : tokens) token = random.below(vocabulary);
  const Array<std::uint32_t> tokens_on_device(tokens);
  const Array<float> y(tokens.size() * sizes.dim);
  must(embed({type, table_on_device.data(), tokens_on_device.data(), 64, sizes.dim,
              out_rows(y, sizes.dim)},
             nullptr),
       "embed");
  const auto values = y.values();
  double error = 0.0;
  for (std::size_t r = 0; r < tokens.size(); ++r) {
    const std::byte* row = table.data() + tokens[r] * row_bytes(type, sizes.dim);
    for (std::uint32_t i = 0; i < sizes.dim; ++i) {
      error =
          larger(error, std::fabs(double{values[r * sizes.dim + i]} - weight_number(type, row, i)));
    }
  }
  report.row("embed", traits(type).name, error, 1e-6);
}

void check_rms_norm(Report& report) {
  const Sizes& sizes = report.sizes();
  const auto x = numbers(1, 64 * sizes.dim);
  const auto weight = numbers(2, sizes.dim);
  const Array<float> x_on_device(x);
  const Array<float> weight_on_device(weight);
  const Array<float> y(x.size());
  must(rms_norm({rows_of(x_on_device, sizes.dim), weight_on_device.data(), out_rows(y, sizes.dim),
                 64, sizes.dim, 1e-5f},
                nullptr),
       "rms_norm");
  const auto values = y.values();
  double error = 0.0;
  for (std::size_t r = 0; r < 64; ++r) {
    double squares = 0.0;
    for (std::uint32_t i = 0; i < sizes.dim; ++i)
      squares += std::pow(double{x[r * sizes.dim + i]}, 2);
    const double scale = 1.0 / std::sqrt(squares / sizes.dim + double{1e-5f});
    for (std::uint32_t i = 0; i < sizes.dim; ++i) {
      const double exact = double{x[r * sizes.dim + i]} * scale * double{weight[i]};
      error = larger(error, std::fabs(double{values[r * sizes.dim + i]} - exact));
    }
  }
  report.row("rms_norm", "64 rows", error, 1e-6);
}

void check_gate(Report& report) {
  const Sizes& sizes = report.sizes();
  auto gates = numbers(1, 64 * sizes.ffn);
  for (float& g : gates) g *= 20.0f;
  const auto up = numbers(2, gates.size());
  const Array<float> gate_on_device(gates);
  const Array<float> up_on_device(up);
  must(gate({rows_of(gate_on_device, sizes.ffn), rows_of(up_on_device, sizes.ffn),
             out_rows(gate_on_device, sizes.ffn), 64, sizes.ffn, Activation::silu, false},
            nullptr),
       "gate");
  const auto values = gate_on_device.values();
  double error = 0.0;
  for (std::size_t i = 0; i < gates.size(); ++i) {
    const double g{gates[i]};
    error = larger(error, std::fabs(double{values[i]} - g / (1.0 + std::exp(-g)) * double{up[i]}));
  }
  report.row("gate", "64 rows, in place", error, 2e-5);
}

namespace {

// Rows rounded to int8, with copies back to the host.
struct Quantized {
  Quantized(std::uint32_t rows, std::uint32_t cols)
      : values(std::size_t{rows} * groups(cols) * kGroup),
        scales(std::size_t{rows} * groups(cols)),
        sums(scales.count() * 4) {}

  QuantizedRows rows() const { return {values.data(), scales.data(), sums.data()}; }
  // All NaNs compare equal; their bits have no meaning.
  bool same_as(const Quantized& other) const {
    const auto same_numbers = [](const Array<float>& a, const Array<float>& b) {
      const auto x = a.values();
      const auto y = b.values();
      return std::equal(x.begin(), x.end(), y.begin(), [](float u, float v) {
        return same_bits(&u, &v, 1) || (std::isnan(u) && std::isnan(v));
      });
    };
    return values.values() == other.values.values() && same_numbers(scales, other.scales) &&
           same_numbers(sums, other.sums);
  }

  Array<std::byte> values;
  Array<float> scales;
  Array<float> sums;
};

}  // namespace

// Fused norm and gate with rounding, against two launches. Rows start at any offset; among them
// are one of zeros, one too small, one with infinite squares, and one with infinity.
void check_quantizing(Report& report, std::uint32_t cols) {
  constexpr std::uint32_t kRows = 33;
  const Array<float> weight(numbers(3, cols));
  const Array<float> y(std::size_t{kRows} * cols);
  for (const std::uint32_t apart : {0u, 4u, 1u}) {
    const std::size_t stride = cols + apart;
    auto x = numbers(1, kRows * stride);
    for (std::size_t i = 0; i < stride; ++i) {
      x[stride + i] = 0.0f;
      x[2 * stride + i] *= 1e-35f;
      x[3 * stride + i] *= 1e25f;
    }
    x[4 * stride + cols / 2] = INFINITY;
    const Array<float> x_on_device(x);
    const Array<float> up(numbers(2, kRows * stride));
    const std::string what = std::to_string(cols) + " elements, " + std::to_string(apart) +
                             " between rows: bit-identical to two launches";
    const Quantized together(kRows, cols);
    const Quantized apart_from(kRows, cols);
    must(rms_norm_quantize(
             {rows_of(x_on_device, stride), weight.data(), together.rows(), kRows, cols, 1e-5f},
             nullptr),
         "rms_norm_quantize");
    must(rms_norm(
             {rows_of(x_on_device, stride), weight.data(), out_rows(y, cols), kRows, cols, 1e-5f},
             nullptr),
         "rms_norm");
    must(quantize({rows_of(y, cols), kRows, cols, apart_from.rows()}, nullptr), "quantize");
    report.claim("rms_norm_quantize", what, together.same_as(apart_from));
    must(gate_quantize({rows_of(x_on_device, stride), rows_of(up, stride), together.rows(), kRows,
                        cols, Activation::silu, false},
                       nullptr),
         "gate_quantize");
    must(gate({rows_of(x_on_device, stride), rows_of(up, stride), out_rows(y, cols), kRows, cols,
               Activation::silu, false},
              nullptr),
         "gate");
    must(quantize({rows_of(y, cols), kRows, cols, apart_from.rows()}, nullptr), "quantize");
    report.claim("gate_quantize", what, together.same_as(apart_from));
  }
}

void check_choices(Report& report) {
  const Sizes& sizes = report.sizes();
  const std::uint32_t rows = 62;
  auto logits = numbers(1, std::size_t{rows} * sizes.vocabulary);
  for (float& x : logits) x = std::round(x * 2000.0f) / 200.0f;  // with ties
  const Array<float> logits_on_device(logits);
  for (const std::uint32_t k : {1u, 10u, 256u}) {
    const Array<std::uint64_t> scratch(top_k_scratch_words(rows, sizes.vocabulary, k));
    const Array<std::uint32_t> tokens(rows * k);
    const Array<float> log_probs(rows * k);
    must(top_k({rows_of(logits_on_device, sizes.vocabulary), rows, sizes.vocabulary, k,
                scratch.data(), scratch.count(), tokens.data(), log_probs.data()},
               nullptr),
         "top_k");
    const auto chosen = tokens.values();
    const auto probabilities = log_probs.values();
    bool good = true;
    double error = 0.0;
    for (std::uint32_t r = 0; r < rows; r += 7) {
      const float* x = &logits[std::size_t{r} * sizes.vocabulary];
      std::vector<std::uint32_t> order(sizes.vocabulary);
      std::iota(order.begin(), order.end(), 0u);
      std::stable_sort(order.begin(), order.end(),
                       [&](std::uint32_t a, std::uint32_t b) { return x[a] > x[b]; });
      double sum = 0.0;
      for (std::uint32_t i = 0; i < sizes.vocabulary; ++i) sum += std::exp(double{x[i]});
      for (std::uint32_t i = 0; i < k; ++i) {
        good = good && chosen[r * k + i] == order[i];
        error = larger(error, std::fabs(double{probabilities[r * k + i]} -
                                        (double{x[order[i]]} - std::log(sum))));
      }
    }
    report.claim("top_k", "k = " + std::to_string(k) + ": order", good);
    report.row("top_k", "k = " + std::to_string(k) + ": log probabilities", error, 1e-5);
  }
  const Array<std::uint64_t> best(std::vector<std::uint64_t>(rows, 0));
  must(argmax({rows_of(logits_on_device, sizes.vocabulary), rows, sizes.vocabulary, best.data()},
              nullptr),
       "argmax");
  const auto best_keys = best.values();
  bool good = true;
  for (std::uint32_t r = 0; r < rows; ++r) {
    const auto first = logits.begin() + static_cast<std::ptrdiff_t>(r) * sizes.vocabulary;
    good = good &&
           argmax_token(best_keys[r]) == std::max_element(first, first + sizes.vocabulary) - first;
  }
  report.claim("argmax", "62 rows", good);
}

}  // namespace edgedraft::cuda::check
