#include <cmath>

#include "kernels/cpu/simd.h"

namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA {
namespace {

// Sums over key indices have this many parts: index i belongs to part i % kSumParts.
constexpr std::size_t kSumParts = 4;

// Of one row and value head: g and b of the contract.
struct Gate {
  float decay;
  float step;
};

// Inputs of one row at 16 value columns.
struct Token {
  const float* q;  // [dim], divided
  const float* k;  // likewise
  Lanes v;
  Gate gate;
};

// One key head of a sequence, with one of its value heads.
struct Head {
  const DeltaRuleArgs& a;
  const Recurrent& s;
  std::size_t key_head;
  std::size_t value_head;
  const float* queries;  // [rows, dim], divided
  const float* keys;     // likewise
  const Gate* gates;     // [rows]

  const float* values(std::size_t row) const {
    return a.qkv.data + (s.first + row) * a.qkv.stride + (2 * a.key_heads + value_head) * a.dim;
  }
  float* y(std::size_t row) const {
    return a.y.data + (s.first + row) * a.y.stride + value_head * a.dim;
  }
  float* state() const { return s.state.data + value_head * a.dim * s.state.stride; }
  // Parts of a kept row.
  float* kept_key(std::size_t row) const {
    return s.kept.data + row * s.kept.stride + key_head * a.dim;
  }
  float* kept_values(std::size_t row) const {
    return s.kept.data + row * s.kept.stride + (a.key_heads + value_head) * a.dim;
  }
  float* kept_decay(std::size_t row) const {
    return s.kept.data + row * s.kept.stride + (a.key_heads + a.value_heads) * a.dim + value_head;
  }
  float* kept_step(std::size_t row) const { return kept_decay(row) + a.value_heads; }

  Token token(std::size_t row, std::size_t c, std::size_t cols) const {
    return {queries + row * a.dim, keys + row * a.dim, load_first(values(row) + c, cols),
            gates[row]};
  }
  Token kept_token(std::size_t row, std::size_t c, std::size_t cols) const {
    return {nullptr,
            kept_key(row),
            load_first(kept_values(row) + c, cols),
            {*kept_decay(row), *kept_step(row)}};
  }
};

// y = x / sqrt(sum of squares + epsilon)
void divide(const float* x, std::size_t dim, float epsilon, float* y) {
  const std::size_t whole = dim / kLanes * kLanes;
  const Lanes tail = load_first(x + whole, dim - whole);
  Lanes squares = all(0.0f);
  for (std::size_t i = 0; i < whole; i += kLanes) squares = fma(load(x + i), load(x + i), squares);
  squares = fma(tail, tail, squares);
  const Lanes scale = all(1.0f / std::sqrt(sum(squares) + epsilon));
  for (std::size_t i = 0; i < whole; i += kLanes) store(y + i, load(x + i) * scale);
  store_first(y + whole, tail * scale, dim - whole);
}

// In float64: errors of a decay multiply over thousands of positions.
Gate gate(const DeltaRuleArgs& a, std::size_t row, std::size_t head) {
  const double time = static_cast<double>(a.alpha.data[row * a.alpha.stride + head]) +
                      static_cast<double>(a.time_bias[head]);
  const double softplus = time > 40.0 ? time : std::log1p(std::exp(time));
  const auto beta = static_cast<double>(a.beta.data[row * a.beta.stride + head]);
  return {static_cast<float>(std::exp(static_cast<double>(a.decay[head]) * softplus)),
          static_cast<float>(1.0 / (1.0 + std::exp(-beta)))};
}

// Updates 16 columns of a state, [dim, 16], by one row: the only order of operations, for every
// kind of row. Returns M^T q if the row is to be read.
template <bool reads>
EDGEDRAFT_INLINE Lanes advance(float* state, std::size_t dim, const Token& token) {
  const Lanes decay = all(token.gate.decay);
  const std::size_t whole = dim / kSumParts * kSumParts;
  const auto decayed = [&](std::size_t i, Lanes& part) {
    const Lanes m = load(state + i * kLanes) * decay;
    store(state + i * kLanes, m);
    part = fma(m, all(token.k[i]), part);
  };
  Lanes seen[kSumParts];
  for (Lanes& part : seen) part = all(0.0f);
  for (std::size_t i = 0; i < whole; i += kSumParts) {
#pragma GCC unroll 4
    for (std::size_t part = 0; part < kSumParts; ++part) decayed(i + part, seen[part]);
  }
  for (std::size_t i = whole; i < dim; ++i) decayed(i, seen[i - whole]);
  const Lanes known = (seen[0] + seen[1]) + (seen[2] + seen[3]);
  const Lanes delta = all(token.gate.step) * (token.v - known);

  const auto added = [&](std::size_t i, Lanes& part) {
    const Lanes m = fma(all(token.k[i]), delta, load(state + i * kLanes));
    store(state + i * kLanes, m);
    if constexpr (reads) part = fma(m, all(token.q[i]), part);
  };
  Lanes read[kSumParts];
  for (Lanes& part : read) part = all(0.0f);
  for (std::size_t i = 0; i < whole; i += kSumParts) {
#pragma GCC unroll 4
    for (std::size_t part = 0; part < kSumParts; ++part) added(i + part, read[part]);
  }
  for (std::size_t i = whole; i < dim; ++i) added(i, read[i - whole]);
  return (read[0] + read[1]) + (read[2] + read[3]);
}

// Copies a head's state to blocks of columns, so that memory is read in order.
void load_state(const Head& head, float* blocks) {
  const std::size_t dim = head.a.dim;
  for (std::size_t i = 0; i < dim; ++i) {
    const float* from = head.state() + i * head.s.state.stride;
    float* to = blocks + i * kLanes;
    for (std::size_t c = 0; c < dim; c += kLanes, to += delta_rule_block_floats(dim)) {
      store(to, c + kLanes <= dim ? load(from + c) : load_first(from + c, dim - c));
    }
  }
}

void store_state(const Head& head, const float* blocks) {
  const std::size_t dim = head.a.dim;
  for (std::size_t i = 0; i < dim; ++i) {
    float* to = head.state() + i * head.s.state.stride;
    const float* from = blocks + i * kLanes;
    for (std::size_t c = 0; c < dim; c += kLanes, from += delta_rule_block_floats(dim)) {
      store_first(to + c, load(from), smaller(kLanes, dim - c));
    }
  }
}

// Kept rows on the paths to a call's drafted rows, depth first, so that most continue from the row
// before.
struct DraftOrder {
  std::size_t count = 0;
  std::uint32_t rows[kRecurrentRowsMax];
  bool branches[kRecurrentRowsMax];  // per kept row: several of them continue from it

  explicit DraftOrder(const Recurrent& s) {
    constexpr std::uint32_t kNone = kStateParent;
    const std::size_t end = s.kept_end();
    bool on_path[kRecurrentRowsMax];
    std::uint32_t first_child[kRecurrentRowsMax];
    std::uint32_t next_sibling[kRecurrentRowsMax];
    std::uint32_t first_root = kNone;
    for (std::size_t r = 0; r < end; ++r) {
      on_path[r] = r >= s.kept_first;
      branches[r] = false;
      first_child[r] = kNone;
    }
    for (std::size_t r = end; r-- > 0;) {
      if (!on_path[r]) continue;
      const std::uint32_t parent = s.parents[r];
      std::uint32_t& first = parent == kNone ? first_root : first_child[parent];
      if (parent != kNone) {
        on_path[parent] = true;
        branches[parent] = first != kNone;
      }
      next_sibling[r] = first;
      first = static_cast<std::uint32_t>(r);
    }
    for (std::uint32_t r = first_root; r != kNone;) {
      rows[count++] = r;
      if (first_child[r] != kNone) {
        r = first_child[r];
        continue;
      }
      while (r != kNone && next_sibling[r] == kNone) r = s.parents[r];
      if (r != kNone) r = next_sibling[r];
    }
  }
};

// All rows of a head at value columns c..c+cols-1, at most 16. `settled` is their block of the
// state; `running` and the blocks after it are memory for copies of it.
void run_columns(const Head& head, const DraftOrder& drafts, std::size_t c, std::size_t cols,
                 float* settled, float* running) {
  const Recurrent& s = head.s;
  const std::size_t dim = head.a.dim;
  const std::size_t block = delta_rule_block_floats(dim);
  const Lanes scale = all(1.0f / std::sqrt(static_cast<float>(dim)));
  const auto run_row = [&](std::size_t row, float* state) {
    const Lanes y = advance<true>(state, dim, head.token(row, c, cols)) * scale;
    store_first(head.y(row) + c, y, cols);
  };
  // A drafted row, given by its kept row, that is only on the path to others.
  const auto pass_row = [&](std::size_t row, float* state) {
    advance<false>(
        state, dim,
        row < s.kept_first ? head.kept_token(row, c, cols) : head.token(s.row_of(row), c, cols));
  };
  for (std::size_t p = 0; p < s.pending_count; ++p) {
    advance<false>(settled, dim, head.kept_token(s.pending[p], c, cols));
  }
  for (std::size_t row = 0; row < s.settled; ++row) run_row(row, settled);
  if (drafts.count == 0) return;

  // States after the last branching rows on the path to the row before.
  std::uint32_t saved[kDeltaRuleSavedStates];
  std::size_t saved_count = 0;
  std::uint32_t before = kStateParent;
  std::memcpy(running, settled, block * sizeof(float));
  for (std::size_t i = 0; i < drafts.count; ++i) {
    const std::uint32_t row = drafts.rows[i];
    const std::uint32_t parent = s.parents[row];
    if (parent != before) {
      while (saved_count > 0 && (parent == kStateParent || saved[saved_count - 1] > parent)) {
        --saved_count;
      }
      const std::uint32_t base = saved_count > 0 ? saved[saved_count - 1] : kStateParent;
      std::memcpy(running, saved_count > 0 ? running + saved_count * block : settled,
                  block * sizeof(float));
      std::uint32_t path[kRecurrentRowsMax];
      std::size_t count = 0;
      for (std::uint32_t at = parent; at != base; at = s.parents[at]) path[count++] = at;
      while (count > 0) pass_row(path[--count], running);
    }
    if (row < s.kept_first) {
      pass_row(row, running);
    } else {
      run_row(s.row_of(row), running);
    }
    before = row;
    if (drafts.branches[row] && saved_count < kDeltaRuleSavedStates) {
      saved[saved_count++] = row;
      std::memcpy(running + saved_count * block, running, block * sizeof(float));
    }
  }
}

}  // namespace

void delta_rule(const DeltaRuleArgs& a, const Work& work) {
  float* const queries = work.scratch;
  float* const keys = queries + kRecurrentRowsMax * a.dim;
  float* const running = keys + kRecurrentRowsMax * a.dim;
  float* const blocks = running + (1 + kDeltaRuleSavedStates) * delta_rule_block_floats(a.dim);
  Gate gates[kRecurrentRowsMax];
  for (std::size_t item = work.begin; item < work.end; ++item) {
    const Recurrent& s = a.sequences[item / a.key_heads];
    const DraftOrder drafts(s);
    Head head{a, s, item % a.key_heads, 0, queries, keys, gates};
    for (std::size_t r = 0; r < s.rows; ++r) {
      const float* q = a.qkv.data + (s.first + r) * a.qkv.stride + head.key_head * a.dim;
      divide(q, a.dim, a.epsilon, queries + r * a.dim);
      divide(q + a.key_heads * a.dim, a.dim, a.epsilon, keys + r * a.dim);
    }
    for (head.value_head = head.key_head; head.value_head < a.value_heads;
         head.value_head += a.key_heads) {
      for (std::size_t r = 0; r < s.rows; ++r) gates[r] = gate(a, s.first + r, head.value_head);
      load_state(head, blocks);
      for (std::size_t c = 0; c < a.dim; c += kLanes) {
        float* const block = blocks + c / kLanes * delta_rule_block_floats(a.dim);
        run_columns(head, drafts, c, smaller(kLanes, a.dim - c), block, running);
      }
      if (s.pending_count + s.settled > 0) store_state(head, blocks);
      for (std::size_t r = s.kept_first; r < s.kept_end(); ++r) {
        const std::size_t row = s.row_of(r);
        std::memcpy(head.kept_values(r), head.values(row), a.dim * sizeof(float));
        *head.kept_decay(r) = gates[row].decay;
        *head.kept_step(r) = gates[row].step;
      }
    }
    // Last, since pending rows of every value head read the kept keys.
    for (std::size_t r = s.kept_first; r < s.kept_end(); ++r) {
      std::memcpy(head.kept_key(r), keys + s.row_of(r) * a.dim, a.dim * sizeof(float));
    }
  }
}

}  // namespace edgedraft::cpu::EDGEDRAFT_CPU_ISA
