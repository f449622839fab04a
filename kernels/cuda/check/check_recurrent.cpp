#include "kernels/cuda/check/checks.h"

namespace edgedraft::cuda::check {
namespace {

// Rows of one sequence: some settled, then a tree of drafted ones with these parents.
constexpr std::uint32_t kSettled = 8;
const std::vector<std::uint32_t> kParents = {kNoRow, 0, kNoRow, 2, 1, 1, 4};

// The rows on the path to row r, r last.
std::vector<std::uint32_t> path_to(std::uint32_t r) {
  std::vector<std::uint32_t> path;
  for (std::uint32_t at = r < kSettled ? kNoRow : r - kSettled; at != kNoRow; at = kParents[at]) {
    path.insert(path.begin(), kSettled + at);
  }
  for (std::uint32_t at = r < kSettled ? r + 1 : kSettled; at-- > 0;) path.insert(path.begin(), at);
  return path;
}

// The sequence's state, kept rows and lists on the device. Its one pending row is kept row 3.
class Sequence {
 public:
  Sequence(std::uint32_t state_rows, std::uint32_t state_cols, const std::vector<float>& kept_rows)
      : state_before(numbers(11, std::size_t{state_rows} * state_cols)),
        kept_before(kept_rows),
        kept_cols_(kept_rows.size() / kRecurrentRowsMax),
        state_(state_before),
        kept_(kept_before),
        parents_(kParents),
        pending_(std::vector<std::uint32_t>{3}),
        owners_(std::vector<std::uint32_t>(rows(), 0)),
        sequence_(std::vector<RecurrentSequence>{{state_.data(), state_cols, kept_.data(),
                                                  kept_cols_, parents_.data(), pending_.data(), 1,
                                                  0, rows(), kSettled, 0}}) {}

  static std::uint32_t rows() { return kSettled + static_cast<std::uint32_t>(kParents.size()); }
  RecurrentCall call() const {
    return {sequence_.data(), owners_.data(), 1, rows(), rows() - kSettled};
  }
  const float* pending() const { return kept_before.data() + 3 * kept_cols_; }
  std::vector<float> state() const { return state_.values(); }
  // The kept row of drafted row r, after the call.
  std::vector<float> kept(std::uint32_t r) const {
    const auto values = kept_.values();
    const auto first = values.begin() + static_cast<std::ptrdiff_t>((r - kSettled) * kept_cols_);
    return {first, first + static_cast<std::ptrdiff_t>(kept_cols_)};
  }

  std::vector<float> state_before;
  std::vector<float> kept_before;

 private:
  std::size_t kept_cols_;
  Array<float> state_;
  Array<float> kept_;
  Array<std::uint32_t> parents_;
  Array<std::uint32_t> pending_;
  Array<std::uint32_t> owners_;
  Array<RecurrentSequence> sequence_;
};

// One value head's inputs of a row, and its state in float64.
struct Step {
  std::vector<double> q;
  std::vector<double> k;
  const float* v;
  double decay;
  double step;
};

std::vector<double> divided(const float* x, std::uint32_t dim, float epsilon) {
  double sum{epsilon};
  for (std::uint32_t i = 0; i < dim; ++i) sum += double{x[i]} * double{x[i]};
  std::vector<double> y(x, x + dim);
  for (double& value : y) value /= std::sqrt(sum);
  return y;
}

std::vector<double> advance(std::vector<double>& m, const Step& at) {
  const std::size_t dim = at.k.size();
  std::vector<double> y(dim);
  for (std::size_t c = 0; c < dim; ++c) {
    double known = 0.0;
    for (std::size_t i = 0; i < dim; ++i) known += (m[i * dim + c] *= at.decay) * at.k[i];
    const double delta = at.step * (double{at.v[c]} - known);
    for (std::size_t i = 0; i < dim; ++i) {
      y[c] += (m[i * dim + c] += at.k[i] * delta) * at.q[i] / std::sqrt(static_cast<double>(dim));
    }
  }
  return y;
}

}  // namespace

void check_convolve(Report& report) {
  const std::uint32_t cols = 2 * report.sizes().dim;
  const std::uint32_t taps = 4;
  const auto x = numbers(1, std::size_t{Sequence::rows()} * cols);
  const auto weight = numbers(2, std::size_t{cols} * taps);
  const Sequence sequence(taps - 1, cols, numbers(3, std::size_t{kRecurrentRowsMax} * cols));
  const Array<float> x_on_device(x);
  const Array<float> weight_on_device(weight);
  const Array<float> y(x.size());
  must(convolve({rows_of(x_on_device, cols), weight_on_device.data(), taps, true, out_rows(y, cols),
                 cols, sequence.call()},
                nullptr),
       "convolve");
  const auto values = y.values();
  double error = 0.0;
  for (std::uint32_t r = 0; r < Sequence::rows(); ++r) {
    const auto path = path_to(r);
    for (std::uint32_t c = 0; c < cols; ++c) {
      std::vector<float> inputs;
      for (std::uint32_t i = 0; i < taps - 1; ++i) {
        inputs.push_back(sequence.state_before[i * cols + c]);
      }
      inputs.push_back(sequence.pending()[c]);
      for (const std::uint32_t row : path) inputs.push_back(x[row * std::size_t{cols} + c]);
      double sum = 0.0;
      for (std::uint32_t j = 0; j < taps; ++j) {
        sum += double{weight[c * taps + j]} * double{inputs[inputs.size() - taps + j]};
      }
      const double exact = sum / (1.0 + std::exp(-sum));
      error = larger(error, std::fabs(double{values[r * std::size_t{cols} + c]} - exact));
    }
  }
  report.row("convolve", "settled rows and a tree", error, 2e-6);
  const float* last = x.data() + (kSettled - taps + 1) * std::size_t{cols};
  report.claim("convolve", "state holds the last settled inputs",
               same_bits(sequence.state().data(), last, std::size_t{taps - 1} * cols));
  bool holds = true;
  for (std::uint32_t r = kSettled; r < Sequence::rows(); ++r) {
    holds = holds && same_bits(sequence.kept(r).data(), x.data() + r * std::size_t{cols}, cols);
  }
  report.claim("convolve", "drafted inputs are kept", holds);
}

void check_delta_rule(Report& report, std::uint32_t dim) {
  const std::uint32_t value_heads = report.sizes().dim / 128;
  const std::uint32_t key_heads = value_heads / 2;
  const std::uint32_t key_cols = key_heads * dim;
  const std::uint32_t value_cols = value_heads * dim;
  const std::uint32_t cols = 2 * key_cols + value_cols;
  const std::uint32_t kept_cols = key_cols + value_cols + 2 * value_heads;
  const std::uint32_t rows = Sequence::rows();
  const float epsilon = 1e-6f;
  const auto qkv = numbers(1, std::size_t{rows} * cols);
  const auto alpha = numbers(2, std::size_t{rows} * value_heads);
  const auto beta = numbers(3, std::size_t{rows} * value_heads);
  auto decay = numbers(4, value_heads);
  for (float& value : decay) value -= 1.0f;
  const auto time_bias = numbers(5, value_heads);
  auto kept = numbers(6, std::size_t{kRecurrentRowsMax} * kept_cols);
  for (float& value : kept) value *= 0.1f;  // keys of about the length 1
  const Sequence sequence(value_cols, dim, kept);
  const Array<float> qkv_on_device(qkv);
  const Array<float> alpha_on_device(alpha);
  const Array<float> beta_on_device(beta);
  const Array<float> decay_on_device(decay);
  const Array<float> bias_on_device(time_bias);
  const Array<float> scratch(std::size_t{rows} *
                             delta_rule_scratch_floats(key_heads, value_heads, dim));
  const Array<float> y(std::size_t{rows} * value_cols);
  must(delta_rule({rows_of(qkv_on_device, cols), rows_of(alpha_on_device, value_heads),
                   rows_of(beta_on_device, value_heads), decay_on_device.data(),
                   bias_on_device.data(), key_heads, value_heads, dim, epsilon, scratch.data(),
                   out_rows(y, value_cols), sequence.call()},
                  nullptr),
       "delta_rule");
  const auto values = y.values();
  const auto state = sequence.state();
  double error = 0.0;
  double state_error = 0.0;
  double kept_error = 0.0;
  for (const std::uint32_t head : {0u, key_heads, value_heads - 1}) {
    std::vector<Step> steps;
    for (std::uint32_t r = 0; r < rows; ++r) {
      const float* q = qkv.data() + std::size_t{r} * cols + head % key_heads * dim;
      const double time = double{alpha[r * value_heads + head]} + double{time_bias[head]};
      steps.push_back({divided(q, dim, epsilon), divided(q + key_cols, dim, epsilon),
                       qkv.data() + std::size_t{r} * cols + 2 * key_cols + head * dim,
                       std::exp(double{decay[head]} * std::log1p(std::exp(time))),
                       1.0 / (1.0 + std::exp(-double{beta[r * value_heads + head]}))});
    }
    const float* pending = sequence.pending();
    const float* pending_key = pending + head % key_heads * dim;
    const Step pending_step{std::vector<double>(dim),
                            {pending_key, pending_key + dim},
                            pending + key_cols + head * dim,
                            double{pending[key_cols + value_cols + head]},
                            double{pending[key_cols + value_cols + value_heads + head]}};
    const std::size_t state_first = std::size_t{head} * dim * dim;
    for (std::uint32_t r = 0; r < rows; ++r) {
      std::vector<double> m(dim * std::size_t{dim});
      for (std::size_t i = 0; i < m.size(); ++i) {
        m[i] = double{sequence.state_before[state_first + i]};
      }
      advance(m, pending_step);
      std::vector<double> exact;
      for (const std::uint32_t row : path_to(r)) exact = advance(m, steps[row]);
      for (std::uint32_t c = 0; c < dim; ++c) {
        const float value = values[std::size_t{r} * value_cols + head * dim + c];
        error = larger(error, std::fabs(double{value} - exact[c]));
      }
      if (r + 1 == kSettled) {
        for (std::size_t i = 0; i < m.size(); ++i) {
          state_error = larger(state_error, std::fabs(double{state[state_first + i]} - m[i]));
        }
      }
      if (r < kSettled) continue;
      const auto row = sequence.kept(r);
      for (std::uint32_t i = 0; i < dim; ++i) {
        const double key{row[head % key_heads * dim + i]};
        kept_error = larger(kept_error, std::fabs(key - steps[r].k[i]));
        const double value{row[key_cols + head * dim + i]};
        kept_error = larger(kept_error, std::fabs(value - double{steps[r].v[i]}));
      }
      const double kept_decay{row[key_cols + value_cols + head]};
      const double kept_step{row[key_cols + value_cols + value_heads + head]};
      kept_error = larger(kept_error, std::fabs(kept_decay - steps[r].decay));
      kept_error = larger(kept_error, std::fabs(kept_step - steps[r].step));
    }
  }
  const std::string what = "dim " + std::to_string(dim);
  report.row("delta_rule", what + ", results", error, 1e-6);
  report.row("delta_rule", what + ", state", state_error, 1e-6);
  report.row("delta_rule", what + ", kept rows", kept_error, 1e-6);
}

}  // namespace edgedraft::cuda::check
