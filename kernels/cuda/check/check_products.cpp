#include "kernels/cuda/check/checks.h"

namespace edgedraft::cuda::check {
namespace {

struct Exact {
  double sum = 0.0;
  double magnitude = 0.0;
};

// Launches the matmul of a weight in any type.
class Multiplier {
 public:
  Multiplier(DType type, const Array<std::byte>& weight, std::uint32_t inputs,
             std::uint32_t outputs, std::uint32_t rows_max)
      : type_(type),
        inputs_(inputs),
        outputs_(outputs),
        weight_(weight),
        packed_(is_float(type) ? 0 : packed_layout(type, outputs, inputs).total),
        values_(std::size_t{rows_max} * groups(inputs) * kGroup),
        scales_(std::size_t{rows_max} * groups(inputs)),
        sums_(std::size_t{rows_max} * groups(inputs) * 4) {
    if (is_float(type)) return;
    must(pack_weight({type, weight.data(), outputs, inputs, packed_.data()}, nullptr),
         "pack_weight");
    // A matmul reads weights before its turn, so they must be complete.
    must(cudaDeviceSynchronize(), "cudaDeviceSynchronize");
  }
  void operator()(ConstRows x, std::uint32_t rows, const float* bias, Rows y,
                  ProductKernel kernel) const {
    if (is_float(type_)) {
      must(
          matmul({x, type_, kernel, rows, inputs_, 1, {{weight_.data(), bias, y, outputs_, false}}},
                 nullptr),
          "matmul");
      return;
    }
    must(quantize({x, rows, inputs_, values_.data(), scales_.data(), sums_.data()}, nullptr),
         "quantize");
    must(int8_matmul({values_.data(),
                      scales_.data(),
                      sums_.data(),
                      type_,
                      kernel,
                      rows,
                      inputs_,
                      1,
                      {},
                      {{packed_.data(), bias, y, outputs_, false}}},
                     nullptr),
         "int8_matmul");
  }

 private:
  DType type_;
  std::uint32_t inputs_;
  std::uint32_t outputs_;
  const Array<std::byte>& weight_;
  Array<std::byte> packed_;
  Array<std::byte> values_;
  Array<float> scales_;
  Array<float> sums_;
};

Exact exact_product(DType type, const float* x, const std::byte* row, std::uint32_t inputs) {
  Exact exact;
  for (std::uint32_t first = 0; first < inputs; first += kGroup) {
    const std::uint32_t end = std::min(first + kGroup, inputs);
    float largest = 0.0f;
    for (std::uint32_t i = first; i < end; ++i) largest = std::max(largest, std::fabs(x[i]));
    const float inverse = 127.0f / largest;
    for (std::uint32_t i = first; i < end; ++i) {
      const double activation =
          is_float(type) ? double{x[i]}
                         : double{largest / 127.0f} * double{std::nearbyint(x[i] * inverse)};
      const double product = activation * weight_number(type, row, i);
      exact.sum += product;
      exact.magnitude += std::fabs(product);
    }
  }
  return exact;
}

}  // namespace

void check_products(Report& report, DType type, std::uint32_t inputs, std::uint32_t outputs) {
  const Sizes& sizes = report.sizes();
  const auto weight = random_weight(type, outputs, inputs, 3);
  const std::uint32_t rows_max = *std::max_element(sizes.widths.begin(), sizes.widths.end());
  const auto x = numbers(4, std::size_t{rows_max} * inputs);
  const auto bias = numbers(5, outputs);
  const Array<std::byte> weight_on_device(weight);
  const Array<float> x_on_device(x);
  const Array<float> bias_on_device(bias);
  Multiplier multiply(type, weight_on_device, inputs, outputs, rows_max);
  const std::string shape = std::string(traits(type).name) + ", " + std::to_string(inputs) +
                            " to " + std::to_string(outputs);
  std::vector<float> alone;
  bool invariant = true;
  bool alike = true;
  for (const std::uint32_t width : sizes.widths) {
    const Array<float> y(std::size_t{width} * outputs);
    const auto product = [&](ProductKernel kernel) {
      multiply(rows_of(x_on_device, inputs), width, bias_on_device.data(), out_rows(y, outputs),
               kernel);
      return y.values();
    };
    const auto values = product(ProductKernel::by_shape);
    for (const ProductKernel kernel :
         {ProductKernel::narrow, ProductKernel::few_outputs, ProductKernel::many_outputs}) {
      alike = alike && same_bits(product(kernel).data(), values.data(), values.size());
    }
    double error = 0.0;
    double allowed = 0.0;
    Random random(width);
    for (int sample = 0; sample < 200; ++sample) {
      // The corners first.
      const std::uint32_t r = sample < 2 ? width - 1 : random.below(width);
      const std::uint32_t o = sample == 0 ? outputs - 1 : sample == 1 ? 0 : random.below(outputs);
      const Exact exact = exact_product(type, &x[std::size_t{r} * inputs],
                                        weight.data() + o * row_bytes(type, inputs), inputs);
      const double value{values[std::size_t{r} * outputs + o]};
      error = larger(error, std::fabs(value - exact.sum - double{bias[o]}));
      allowed = std::max(allowed, (inputs + 8.0) * 0x1p-24 * (exact.magnitude + 1.0));
    }
    const std::string what = shape + ", " + std::to_string(width) + " rows";
    report.row("matmul", what, error, allowed);
    if (width == sizes.widths.front()) alone = values;
    invariant = invariant && same_bits(alone.data(), values.data(), alone.size());
  }
  report.claim("matmul", shape + ": a row is bit-identical at every width", invariant);
  report.claim("matmul", shape + ": all kernels are bit-identical", alike);
}

}  // namespace edgedraft::cuda::check
