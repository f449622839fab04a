#include "tests/support/reference_backend.h"

#include <algorithm>
#include <cmath>
#include <numbers>
#include <numeric>
#include <vector>

#include "shared/base/check.h"
#include "shared/runtime/host_backend.h"
#include "shared/runtime/op_checks.h"

namespace edgedraft {
namespace {

// Maps NaN to the smallest value, as it would leave the order of logits undefined.
float comparable(float x) {
  return std::isnan(x) ? -INFINITY : x;
}

// One query head over the listed rows. `k` and `v` point at its key-value head in row 0.
struct HeadAttention {
  const float* q;
  const float* k;
  const float* v;
  std::uint64_t k_stride;
  std::uint64_t v_stride;
  std::uint32_t head_dim;
  float scale;
  const float* sink;  // or null
};

void attend(const HeadAttention& a, std::span<const std::uint64_t> rows, float* y) {
  std::vector<double> weights(rows.size());
  for (std::size_t i = 0; i < rows.size(); ++i) {
    double dot = 0.0;
    for (std::uint32_t d = 0; d < a.head_dim; ++d) {
      dot += double{a.q[d]} * double{a.k[rows[i] * a.k_stride + d]};
    }
    weights[i] = dot * double{a.scale};
  }
  double largest = *std::max_element(weights.begin(), weights.end());
  if (a.sink != nullptr) largest = std::max(largest, double{*a.sink});
  double total = a.sink != nullptr ? std::exp(double{*a.sink} - largest) : 0.0;
  for (double& weight : weights) total += weight = std::exp(weight - largest);
  for (std::uint32_t d = 0; d < a.head_dim; ++d) {
    double sum = 0.0;
    for (std::size_t i = 0; i < rows.size(); ++i) {
      sum += weights[i] * double{a.v[rows[i] * a.v_stride + d]};
    }
    y[d] = static_cast<float>(sum / total);
  }
}

double gated(Activation activation, double gate, double up) {
  switch (activation) {
    case Activation::silu:
      return gate / (1.0 + std::exp(-gate)) * up;
    case Activation::gelu:
      return gate / 2.0 *
             (1.0 + std::tanh(std::sqrt(2.0 / std::numbers::pi) *
                              (gate + 0.044715 * gate * gate * gate))) *
             up;
    case Activation::clamped: {
      const double limited = std::min(gate, 7.0);
      return limited / (1.0 + std::exp(-1.702 * limited)) * (std::clamp(up, -7.0, 7.0) + 1.0);
    }
    case Activation::sigmoid:
      return up / (1.0 + std::exp(-gate));
    case Activation::identity:
      break;
  }
  return gate * up;
}

class ReferenceBackend final : public HostBackend {
 public:
  std::string_view name() const override { return "reference"; }

  void embed(const EmbedOp& op) override {
    check_op(op);
    const ByteView table = bytes_of(op.table);
    float* y = data(op.y);
    for (std::size_t r = 0; r < op.tokens.size(); ++r) {
      decode_row(op.table, table, op.tokens[r], {y + r * op.y.stride, op.y.cols});
    }
  }

  void rms_norm(const RmsNormOp& op) override {
    check_op(op);
    const float* weight = f32_data(op.weight);
    const std::uint32_t cols = op.weight.cols;
    for (std::uint32_t r = 0; r < op.x.rows; ++r) {
      for (std::uint32_t first = 0; first < op.x.cols; first += cols) {
        const float* x = data(op.x) + r * op.x.stride + first;
        float* y = data(op.y) + r * op.y.stride + first;
        double sum = 0.0;
        for (std::uint32_t i = 0; i < cols; ++i) sum += double{x[i]} * double{x[i]};
        const double scale = 1.0 / std::sqrt(sum / cols + double{op.epsilon});
        for (std::uint32_t i = 0; i < cols; ++i) {
          const double before = op.into == Into::accumulate ? double{y[i]} : 0.0;
          y[i] = static_cast<float>(before + double{x[i]} * scale * double{weight[i]});
        }
      }
    }
  }

  void matmul(const MatmulOp& op) override {
    check_op(op);
    const ByteView bytes = bytes_of(op.weight);
    const float* bias = f32_data(op.bias);
    std::vector<float> row(op.weight.cols);
    for (std::uint32_t o = 0; o < op.weight.rows; ++o) {
      decode_row(op.weight, bytes, o, row);
      for (std::uint32_t r = 0; r < op.x.rows; ++r) {
        const float* x = data(op.x) + r * op.x.stride;
        float& y = data(op.y)[r * op.y.stride + o];
        double sum = op.into == Into::accumulate ? double{y} : 0.0;
        for (std::size_t i = 0; i < row.size(); ++i) sum += double{x[i]} * double{row[i]};
        if (bias != nullptr) sum += double{bias[o]};
        y = static_cast<float>(sum);
      }
    }
  }

  void rope(const RopeOp& op) override {
    check_op(op);
    if (op.rotated == 0) return;
    const std::uint32_t half = op.rotated / 2;
    for (std::uint32_t r = 0; r < op.x.rows; ++r) {
      const float* cosines = data(op.cos_sin) + op.positions[r] * op.cos_sin.stride;
      const float* sines = cosines + half;
      for (std::uint32_t head = 0; head < op.x.cols; head += op.head_dim) {
        float* x = data(op.x) + r * op.x.stride + head;
        for (std::uint32_t i = 0; i < half; ++i) {
          float& a = op.style == RopeStyle::halves ? x[i] : x[2 * i];
          float& b = op.style == RopeStyle::halves ? x[half + i] : x[2 * i + 1];
          const double c = double{cosines[i]};
          const double s = double{sines[i]};
          const double rotated = double{a} * c - double{b} * s;
          b = static_cast<float>(double{b} * c + double{a} * s);
          a = static_cast<float>(rotated);
        }
      }
    }
  }

  void store(const StoreOp& op) override {
    check_op(op);
    constexpr float kHalfMax = 65504.0f;
    const CacheRows& memory = op.cache.memory;
    std::vector<float> row(op.x.cols);
    for (std::uint32_t r = 0; r < op.x.rows; ++r) {
      const float* x = data(op.x) + r * op.x.stride;
      for (std::uint32_t i = 0; i < op.x.cols; ++i) {
        const bool limited = memory.type == DType::f16 && std::isfinite(x[i]);
        row[i] = limited ? std::clamp(x[i], -kHalfMax, kHalfMax) : x[i];
      }
      quantize_row(memory.type, row, bytes_of(memory, op.cache.row(op.first + r)));
    }
  }

  void attention(const AttentionOp& op) override {
    check_op(op);
    const auto seen_max = std::min<std::uint64_t>(
        op.prefix + (op.masks.empty() ? 0 : std::uint64_t{kMaskRowsMax}), op.keys.slots());
    const std::vector<float> keys = decoded(op.keys, seen_max);
    const std::vector<float> values = decoded(op.values, seen_max);
    const std::uint64_t stride = op.keys.cols();
    std::vector<std::uint64_t> slots;
    for (std::uint32_t r = 0; r < op.q.rows; ++r) {
      slots.resize(op.prefix);
      std::iota(slots.begin(), slots.end(), std::uint64_t{0});
      if (!op.masks.empty()) {
        for (std::uint32_t j = 0; j < kMaskRowsMax; ++j) {
          if (op.masks[r].test(j)) slots.push_back(op.prefix + j);
        }
      }
      attend_row(
          op.heads,
          {op.q, keys.data(), stride, values.data(), stride, op.y, op.scale, f32_data(op.sinks)}, r,
          std::span(slots).subspan(op.window_begin(r)));
    }
  }

  void group_attention(const GroupAttentionOp& op) override {
    check_op(op);
    std::vector<std::uint64_t> rows(op.group_rows);
    for (std::uint32_t r = 0; r < op.q.rows; ++r) {
      std::iota(rows.begin(), rows.end(), r - r % op.group_rows);
      attend_row(op.heads,
                 {op.q, data(op.k), op.k.stride, data(op.v), op.v.stride, op.y,
                  op.heads.score_scale(), nullptr},
                 r, rows);
    }
  }

  void gate(const GateOp& op) override {
    check_op(op);
    for (std::uint32_t r = 0; r < op.y.rows; ++r) {
      const float* gate = data(op.gate) + r * op.gate.stride;
      const float* up = data(op.up) + r * op.up.stride;
      float* y = data(op.y) + r * op.y.stride;
      const float one = gate[0];
      for (std::uint32_t i = 0; i < op.y.cols; ++i) {
        const float g = op.gate.cols == 1 ? one : gate[i];
        y[i] = static_cast<float>(gated(op.activation, double{g}, double{up[i]}));
      }
    }
  }

  void compact(const CompactOp& op) override {
    check_op(op);
    std::uint32_t to = op.first;
    for (const std::uint32_t from : op.slots) {
      if (from != to) {
        std::ranges::copy(bytes_of(op.cache.memory, op.cache.row(from)),
                          bytes_of(op.cache.memory, op.cache.row(to)).begin());
      }
      ++to;
    }
  }

  void gather_layers(const GatherLayersOp& op) override {
    check_op(op);
    const std::uint32_t head_dim = op.heads.head_dim;
    float* y = data(op.y);
    std::vector<float> key(op.heads.kv_cols());
    std::vector<float> value(op.heads.kv_cols());
    for (const std::uint32_t slot : op.slots) {
      for (std::size_t layer = 0; layer < op.keys.size(); ++layer, y += op.y.stride) {
        const CacheRows& keys = op.keys[layer].memory;
        const CacheRows& values = op.values[layer].memory;
        dequantize_row(keys.type, bytes_of(keys, op.keys[layer].row(slot)), key);
        dequantize_row(values.type, bytes_of(values, op.values[layer].row(slot)), value);
        for (std::uint32_t i = 0; i < op.heads.kv_cols(); ++i) {
          const std::uint32_t head = i / head_dim;
          const std::uint32_t d = i % head_dim;
          const bool paired = op.style == RopeStyle::pairs;
          const std::uint32_t from = paired ? d % (head_dim / 2) * 2 + d / (head_dim / 2) : d;
          y[2 * head * head_dim + d] = key[head * head_dim + from];
          y[(2 * head + 1) * head_dim + d] = value[i];
        }
      }
    }
  }

  void group_mean(const GroupMeanOp& op) override {
    check_op(op);
    const float* x = data(op.x);
    float* y = data(op.y);
    for (std::uint32_t g = 0; g < op.y.rows; ++g) {
      for (std::uint32_t i = 0; i < op.y.cols; ++i) {
        double sum = 0.0;
        for (std::uint32_t r = g * op.group_rows; r < (g + 1) * op.group_rows; ++r) {
          sum += double{x[r * op.x.stride + i]};
        }
        y[g * op.y.stride + i] = static_cast<float>(sum / op.group_rows);
      }
    }
  }

  void top_k(const TopKOp& op) override {
    check_op(op);
    std::vector<std::uint32_t> order(op.logits.cols);
    for (std::uint32_t r = 0; r < op.logits.rows; ++r) {
      const float* x = data(op.logits) + r * op.logits.stride;
      std::iota(order.begin(), order.end(), 0u);
      std::partial_sort(order.begin(), order.begin() + op.k, order.end(),
                        [&](std::uint32_t a, std::uint32_t b) {
                          const float xa = comparable(x[a]);
                          const float xb = comparable(x[b]);
                          return xa > xb || (xa == xb && a < b);
                        });
      const double largest = double{x[order[0]]};
      double sum = 0.0;
      for (std::uint32_t i = 0; i < op.logits.cols; ++i) sum += std::exp(double{x[i]} - largest);
      for (std::uint32_t i = 0; i < op.k; ++i) {
        op.tokens[r * op.k + i] = order[i];
        op.log_probs[r * op.k + i] =
            static_cast<float>(double{x[order[i]]} - largest - std::log(sum));
      }
    }
  }

  void argmax(const ArgmaxOp& op) override {
    check_op(op);
    for (std::uint32_t r = 0; r < op.logits.rows; ++r) {
      const float* x = data(op.logits) + r * op.logits.stride;
      std::uint32_t best = 0;
      for (std::uint32_t i = 1; i < op.logits.cols; ++i) {
        if (comparable(x[i]) > comparable(x[best])) best = i;
      }
      op.tokens[r] = best;
    }
  }

  void scale(const ScaleOp& op) override {
    check_op(op);
    for (std::uint32_t r = 0; r < op.x.rows; ++r) {
      for (std::uint32_t i = 0; i < op.x.cols; ++i) data(op.x)[r * op.x.stride + i] *= op.factor;
    }
  }

  void soft_cap(const SoftCapOp& op) override {
    check_op(op);
    for (std::uint32_t r = 0; r < op.x.rows; ++r) {
      for (std::uint32_t i = 0; i < op.x.cols; ++i) {
        float& x = data(op.x)[r * op.x.stride + i];
        x = static_cast<float>(double{op.cap} * std::tanh(double{x} / double{op.cap}));
      }
    }
  }

  void convolve(const ConvolutionOp& op) override {
    check_op(op);
    const float* weight = f32_data(op.weight);
    const std::size_t taps = op.weight.cols;
    std::uint32_t first = 0;
    for (const RecurrentRows& s : op.sequences) {
      const Matrix x = op.x.row_range(first, s.rows);
      for (std::uint32_t c = 0; c < op.x.cols; ++c) {
        std::vector<float> past(taps - 1);
        for (std::uint32_t i = 0; i < taps - 1; ++i) past[i] = row(s.state, i)[c];
        for (const std::uint32_t p : s.pending) past.push_back(row(s.kept, p)[c]);
        for (std::uint32_t r = s.settled; r < s.rows; ++r) {
          row(s.kept, s.first + r - s.settled)[c] = row(x, r)[c];
        }
        for (std::uint32_t r = 0; r < s.rows; ++r) {
          if (r < s.settled) past.push_back(row(x, r)[c]);
          std::vector<float> inputs = past;
          if (r >= s.settled) {
            const auto path = path_to(s, s.first + r - s.settled);
            for (const std::uint32_t at : path) inputs.push_back(row(s.kept, at)[c]);
          }
          double sum = 0.0;
          for (std::size_t j = 0; j < taps; ++j) {
            sum += double{weight[c * taps + j]} * double{inputs[inputs.size() - taps + j]};
          }
          if (op.activation == Activation::silu) sum /= 1.0 + std::exp(-sum);
          row(op.y, first + r)[c] = static_cast<float>(sum);
        }
        for (std::uint32_t i = 0; i < taps - 1; ++i) {
          row(s.state, i)[c] = past[past.size() - (taps - 1) + i];
        }
      }
      first += s.rows;
    }
  }

  void delta_rule(const DeltaRuleOp& op) override {
    check_op(op);
    std::uint32_t call_first = 0;
    for (const RecurrentRows& s : op.sequences) {
      const auto run = [&](std::vector<float>& m, std::uint32_t r, std::uint32_t head) {
        const std::vector<float> y = advance(m, delta_step(op, call_first + r, head));
        std::ranges::copy(y, row(op.y, call_first + r) + head * op.dim);
      };
      for (std::uint32_t head = 0; head < op.value_heads; ++head) {
        std::vector<float> state = head_state(op, s, head);
        for (const std::uint32_t p : s.pending) advance(state, kept_step(op, s.kept, p, head));
        for (std::uint32_t r = 0; r < s.settled; ++r) run(state, r, head);
        for (std::uint32_t i = 0; i < op.dim; ++i) {
          std::copy_n(state.begin() + i * op.dim, op.dim, row(s.state, head * op.dim + i));
        }
      }
      for (std::uint32_t r = s.settled; r < s.rows; ++r) {
        for (std::uint32_t head = 0; head < op.value_heads; ++head) {
          std::vector<float> drafted = head_state(op, s, head);
          const std::uint32_t kept = s.first + r - s.settled;
          for (const std::uint32_t at : path_to(s, s.parents[kept])) {
            advance(drafted, kept_step(op, s.kept, at, head));
          }
          run(drafted, r, head);
          keep(op, s.kept, kept, head, delta_step(op, call_first + r, head));
        }
      }
      call_first += s.rows;
    }
  }

  void route(const RouteOp& op) override {
    check_op(op);
    std::vector<std::uint32_t> order(op.logits.cols);
    for (std::uint32_t r = 0; r < op.logits.rows; ++r) {
      const float* x = data(op.logits) + r * op.logits.stride;
      float* experts = data(op.experts) + r * op.experts.stride;
      float* weights = data(op.weights) + r * op.weights.stride;
      std::iota(order.begin(), order.end(), 0u);
      std::stable_sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
        return comparable(x[a]) > comparable(x[b]);
      });
      double sum = 0.0;
      for (std::uint32_t u = 0; u < op.used; ++u) {
        sum += std::exp(double{x[order[u]]} - double{x[order[0]]});
      }
      for (std::uint32_t u = 0; u < op.used; ++u) {
        experts[u] = static_cast<float>(order[u]);
        weights[u] = static_cast<float>(std::exp(double{x[order[u]]} - double{x[order[0]]}) / sum);
      }
    }
  }

  void expert_matmul(const ExpertMatmulOp& op) override {
    check_op(op);
    const ByteView bytes = bytes_of(op.weight);
    const float* bias = f32_data(op.bias);
    std::vector<float> row(op.weight.cols);
    for (std::uint32_t i = 0; i < op.y.rows; ++i) {
      const std::uint32_t r = i / op.experts.cols;
      const auto expert =
          static_cast<std::uint32_t>(data(op.experts)[r * op.experts.stride + i % op.experts.cols]);
      EDGEDRAFT_CHECK(expert < op.weight.experts);
      const float* x = data(op.x) + (op.x.rows == op.y.rows ? i : r) * op.x.stride;
      float* y = data(op.y) + i * op.y.stride;
      for (std::uint32_t o = 0; o < op.y.cols; ++o) {
        decode_row(op.weight, bytes, expert * op.y.cols + o, row);
        double sum = bias != nullptr ? double{bias[expert * op.y.cols + o]} : 0.0;
        for (std::size_t k = 0; k < row.size(); ++k) sum += double{x[k]} * double{row[k]};
        y[o] = static_cast<float>(sum);
      }
    }
  }

  void mix(const MixOp& op) override {
    check_op(op);
    for (std::uint32_t r = 0; r < op.y.rows; ++r) {
      const float* weights = data(op.weights) + r * op.weights.stride;
      for (std::uint32_t i = 0; i < op.y.cols; ++i) {
        double sum = 0.0;
        for (std::uint32_t u = 0; u < op.weights.cols; ++u) {
          const float* x = data(op.x) + (r * op.weights.cols + u) * op.x.stride;
          sum += double{weights[u]} * double{x[i]};
        }
        float& y = data(op.y)[r * op.y.stride + i];
        y = static_cast<float>(double{y} + sum);
      }
    }
  }

 private:
  struct Attended {
    const Matrix& q;
    const float* k;
    std::uint64_t k_stride;
    const float* v;
    std::uint64_t v_stride;
    const Matrix& y;
    float scale;
    const float* sinks;  // per query head, or null
  };

  static float* row(const Matrix& m, std::uint32_t r) { return data(m) + r * m.stride; }

  // Kept row `at` and those before it, oldest first.
  static std::vector<std::uint32_t> path_to(const RecurrentRows& s, std::uint32_t at) {
    std::vector<std::uint32_t> path;
    for (; at != kNoParent; at = s.parents[at]) path.push_back(at);
    std::ranges::reverse(path);
    return path;
  }

  // Inputs of one row and value head of a delta rule.
  struct DeltaStep {
    std::vector<float> q;
    std::vector<float> k;
    std::vector<float> v;
    float decay;
    float step;
  };

  // One head's state [dim, dim].
  static std::vector<float> head_state(const DeltaRuleOp& op, const RecurrentRows& s,
                                       std::uint32_t head) {
    std::vector<float> state;
    for (std::uint32_t i = 0; i < op.dim; ++i) {
      const float* from = row(s.state, head * op.dim + i);
      state.insert(state.end(), from, from + op.dim);
    }
    return state;
  }

  static DeltaStep delta_step(const DeltaRuleOp& op, std::uint32_t r, std::uint32_t head) {
    const float* qkv = row(op.qkv, r);
    const float* q = qkv + head % op.key_heads * op.dim;
    const float* v = qkv + 2 * op.key_cols() + head * op.dim;
    const double time = double{row(op.alpha, r)[head]} + double{f32_data(op.time_bias)[head]};
    const double decay = double{f32_data(op.decay)[head]} * std::log1p(std::exp(time));
    const double beta = double{row(op.beta, r)[head]};
    return {.q = divided(op, q),
            .k = divided(op, q + op.key_cols()),
            .v = {v, v + op.dim},
            .decay = static_cast<float>(std::exp(decay)),
            .step = static_cast<float>(1.0 / (1.0 + std::exp(-beta)))};
  }

  static std::vector<float> divided(const DeltaRuleOp& op, const float* x) {
    double squares = double{op.epsilon};
    for (std::uint32_t i = 0; i < op.dim; ++i) squares += double{x[i]} * double{x[i]};
    std::vector<float> y(op.dim);
    for (std::uint32_t i = 0; i < op.dim; ++i) {
      y[i] = static_cast<float>(double{x[i]} / std::sqrt(squares));
    }
    return y;
  }

  static DeltaStep kept_step(const DeltaRuleOp& op, const Matrix& kept, std::uint32_t r,
                             std::uint32_t head) {
    const float* k = row(kept, r) + head % op.key_heads * op.dim;
    const float* v = row(kept, r) + op.key_cols() + head * op.dim;
    const float* gates = row(kept, r) + op.key_cols() + op.value_cols() + head;
    return {.q = std::vector<float>(op.dim),
            .k = {k, k + op.dim},
            .v = {v, v + op.dim},
            .decay = gates[0],
            .step = gates[op.value_heads]};
  }
  static void keep(const DeltaRuleOp& op, const Matrix& kept, std::uint32_t r, std::uint32_t head,
                   const DeltaStep& from) {
    std::ranges::copy(from.k, row(kept, r) + head % op.key_heads * op.dim);
    std::ranges::copy(from.v, row(kept, r) + op.key_cols() + head * op.dim);
    float* gates = row(kept, r) + op.key_cols() + op.value_cols() + head;
    gates[0] = from.decay;
    gates[op.value_heads] = from.step;
  }

  // Updates one head's state [dim, dim]. Returns M^T q / sqrt(dim).
  static std::vector<float> advance(std::vector<float>& m, const DeltaStep& at) {
    const std::size_t dim = at.k.size();
    std::vector<float> y(dim);
    for (std::size_t c = 0; c < dim; ++c) {
      double known = 0.0;
      for (std::size_t i = 0; i < dim; ++i) {
        known += double{at.decay} * double{m[i * dim + c]} * double{at.k[i]};
      }
      const double delta = double{at.step} * (double{at.v[c]} - known);
      double read = 0.0;
      for (std::size_t i = 0; i < dim; ++i) {
        float& x = m[i * dim + c];
        x = static_cast<float>(double{at.decay} * double{x} + double{at.k[i]} * delta);
        read += double{x} * double{at.q[i]};
      }
      y[c] = static_cast<float>(read / std::sqrt(static_cast<double>(dim)));
    }
    return y;
  }

  static std::span<std::byte> bytes_of(const CacheRows& cache, std::uint64_t row) {
    return {data(cache) + cache_bytes(cache.type, row * cache.stride),
            static_cast<std::size_t>(cache_bytes(cache.type, cache.cols))};
  }

  // Slots 0 to count - 1 in order.
  static std::vector<float> decoded(const CacheView& cache, std::uint64_t count) {
    const std::size_t cols = cache.cols();
    std::vector<float> numbers(count * cols);
    for (std::uint32_t slot = 0; slot < count; ++slot) {
      dequantize_row(cache.memory.type, bytes_of(cache.memory, cache.row(slot)),
                     std::span(numbers).subspan(slot * cols, cols));
    }
    return numbers;
  }

  static ByteView bytes_of(const Weight& w) {
    return {data(w), static_cast<std::size_t>(w.rows * *row_bytes(w.type, w.cols))};
  }

  static void decode_row(const Weight& w, ByteView all, std::uint32_t row, std::span<float> to) {
    const auto bytes = static_cast<std::size_t>(*row_bytes(w.type, w.cols));
    dequantize_row(w.type, all.subspan(row * bytes, bytes), to);
  }

  static void attend_row(const HeadShape& heads, const Attended& m, std::uint32_t r,
                         std::span<const std::uint64_t> rows) {
    for (std::uint32_t head = 0; head < heads.query_heads; ++head) {
      const std::uint32_t kv_head = head / (heads.query_heads / heads.kv_heads);
      const HeadAttention a{.q = data(m.q) + r * m.q.stride + head * heads.head_dim,
                            .k = m.k + kv_head * heads.head_dim,
                            .v = m.v + kv_head * heads.head_dim,
                            .k_stride = m.k_stride,
                            .v_stride = m.v_stride,
                            .head_dim = heads.head_dim,
                            .scale = m.scale,
                            .sink = m.sinks != nullptr ? m.sinks + head : nullptr};
      attend(a, rows, data(m.y) + r * m.y.stride + head * heads.head_dim);
    }
  }
};

}  // namespace

std::unique_ptr<Backend> make_reference_backend() {
  return std::make_unique<ReferenceBackend>();
}

}  // namespace edgedraft
