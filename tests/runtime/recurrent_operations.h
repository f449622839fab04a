#pragma once

#include <algorithm>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "tests/runtime/op_test.h"

// Sequences and operations for tests of recurrent operations.
namespace edgedraft::testing {

using Rows = std::vector<std::uint32_t>;

// State and kept rows of one sequence, with gaps between rows.
class SequenceMemory {
 public:
  SequenceMemory(Backend& backend, std::uint32_t rows, std::uint32_t cols, std::uint32_t kept_rows,
                 std::uint32_t kept_cols)
      : backend_(backend),
        state_memory_(backend, rows, cols + 3),
        kept_memory_(backend, kept_rows, kept_cols + 5),
        state(state_memory_.all().column_range(1, cols)),
        kept(kept_memory_.all().column_range(2, kept_cols)) {}

  Floats state_values() const { return values_of(backend_, state); }
  Floats kept_values(std::uint32_t first, std::uint32_t count) const {
    return values_of(backend_, kept.row_range(first, count));
  }

 private:
  Backend& backend_;
  OwnedMatrix state_memory_;
  OwnedMatrix kept_memory_;

 public:
  Matrix state;
  Matrix kept;
};

// One sequence's share of a call. Tokens number the rows of an operation's inputs.
struct CallPart {
  const SequenceMemory& memory;
  Rows tokens;
  Rows parents;  // of kept rows
  std::uint32_t settled = 0;
  Rows pending = {};
  std::uint32_t first = 0;  // kept row
};

inline Rows chain(std::uint32_t count) {
  Rows parents(count);
  for (std::uint32_t r = 0; r < count; ++r) parents[r] = r - 1;  // kNoParent for row 0
  return parents;
}

inline Rows counted(std::uint32_t first, std::uint32_t count) {
  Rows rows(count);
  for (std::uint32_t i = 0; i < count; ++i) rows[i] = first + i;
  return rows;
}

inline Rows random_parents(std::uint64_t seed, std::uint32_t rows) {
  Random random(seed);
  Rows parents = chain(rows);
  for (std::uint32_t r = 0; r < rows; ++r) {
    if (random.below(3) != 0) parents[r] = static_cast<std::uint32_t>(random.below(r + 1)) - 1;
  }
  return parents;
}

inline Rows path_to(const Rows& parents, std::uint32_t r) {
  Rows path;
  for (; r != kNoParent; r = parents[r]) path.push_back(r);
  std::ranges::reverse(path);
  return path;
}

inline Rows joined(Rows a, const Rows& b) {
  a.insert(a.end(), b.begin(), b.end());
  return a;
}

// Each number of `rows` plus `distance`.
inline Rows shifted(Rows rows, std::uint32_t distance) {
  for (std::uint32_t& row : rows) row += distance;
  return rows;
}

// A recurrent operation with random inputs for kTokens tokens.
class RecurrentOperation {
 public:
  static constexpr std::uint32_t kTokens = 64;

  explicit RecurrentOperation(Backend& backend) : backend_(backend) {}
  virtual ~RecurrentOperation() = default;

  virtual std::string name() const = 0;
  virtual SequenceMemory new_memory(std::uint32_t kept_rows) const = 0;
  SequenceMemory new_memory() const { return new_memory(kMaskRowsMax); }
  virtual std::uint32_t cols() const = 0;

  // Results of all rows, part by part.
  Floats run(std::span<const CallPart> parts) const {
    Rows tokens;
    std::vector<RecurrentRows> sequences;
    for (const CallPart& part : parts) {
      tokens.insert(tokens.end(), part.tokens.begin(), part.tokens.end());
      sequences.push_back({.rows = static_cast<std::uint32_t>(part.tokens.size()),
                           .state = part.memory.state,
                           .kept = part.memory.kept,
                           .pending = part.pending,
                           .settled = part.settled,
                           .first = part.first,
                           .parents = part.parents});
    }
    const auto rows = static_cast<std::uint32_t>(tokens.size());
    const OwnedMatrix y(backend_, rows + 1, cols() + 3);
    const Matrix results = y.rows(rows).column_range(1, cols());
    enqueue(tokens, sequences, results);
    return values_of(backend_, results);
  }
  Floats run(const CallPart& part) const { return run({&part, 1}); }

  // Results of the tokens, one call each.
  Floats run_one_by_one(const SequenceMemory& memory, const Rows& tokens) const {
    Floats results;
    for (const std::uint32_t token : tokens) {
      const Floats y = run(CallPart{memory, {token}, {}, 1});
      results.insert(results.end(), y.begin(), y.end());
    }
    return results;
  }

  Floats row_of(const Floats& results, std::size_t row) const {
    const auto first = results.begin() + static_cast<std::ptrdiff_t>(row * cols());
    return {first, first + cols()};
  }

 protected:
  virtual void enqueue(const Rows& tokens, std::span<const RecurrentRows> sequences,
                       const Matrix& y) const = 0;

  // The tokens' rows of `inputs`, with a gap after each.
  OwnedMatrix gathered(const Floats& inputs, const Rows& tokens) const {
    const std::size_t cols = inputs.size() / kTokens;
    Floats rows;
    for (const std::uint32_t token : tokens) {
      const auto from = inputs.begin() + static_cast<std::ptrdiff_t>(token * cols);
      rows.insert(rows.end(), from, from + static_cast<std::ptrdiff_t>(cols));
      rows.push_back(7.0f);
    }
    return matrix_of(backend_, static_cast<std::uint32_t>(tokens.size()),
                     static_cast<std::uint32_t>(cols + 1), rows);
  }
  static Matrix without_gap(const OwnedMatrix& matrix) {
    return matrix.all().column_range(0, matrix.all().cols - 1);
  }

  Backend& backend_;
};

class Convolution final : public RecurrentOperation {
 public:
  Convolution(Backend& backend, std::uint32_t cols, std::uint32_t taps, Activation activation)
      : RecurrentOperation(backend),
        cols_(cols),
        taps_(taps),
        activation_(activation),
        weight_(backend, DType::f32, cols, taps, random_floats(1, cols * taps)),
        x_(random_floats(2, kTokens * cols)) {}

  std::string name() const override {
    return "convolution of " + std::to_string(cols_) + " columns";
  }
  using RecurrentOperation::new_memory;
  SequenceMemory new_memory(std::uint32_t kept_rows) const override {
    return {backend_, taps_ - 1, cols_, kept_rows, cols_};
  }
  std::uint32_t cols() const override { return cols_; }

 private:
  void enqueue(const Rows& tokens, std::span<const RecurrentRows> sequences,
               const Matrix& y) const override {
    const OwnedMatrix x = gathered(x_, tokens);
    backend_.convolve({.x = without_gap(x),
                       .weight = weight_.table,
                       .activation = activation_,
                       .y = y,
                       .sequences = sequences});
  }

  std::uint32_t cols_;
  std::uint32_t taps_;
  Activation activation_;
  TestWeight weight_;
  Floats x_;
};

class DeltaRule final : public RecurrentOperation {
 public:
  DeltaRule(Backend& backend, std::uint32_t key_heads, std::uint32_t value_heads, std::uint32_t dim)
      : RecurrentOperation(backend),
        key_heads_(key_heads),
        value_heads_(value_heads),
        dim_(dim),
        decay_(backend, DType::f32, 1, value_heads, negative(random_floats(1, value_heads))),
        time_bias_(backend, DType::f32, 1, value_heads, random_floats(2, value_heads)),
        qkv_(random_floats(3, kTokens * (2 * key_heads + value_heads) * dim)),
        alpha_(random_floats(4, kTokens * value_heads)),
        beta_(random_floats(5, kTokens * value_heads)) {}

  std::string name() const override {
    return "delta rule of " + std::to_string(dim_) + " dimensions";
  }
  using RecurrentOperation::new_memory;
  SequenceMemory new_memory(std::uint32_t kept_rows) const override {
    return {backend_, value_heads_ * dim_, dim_, kept_rows,
            (key_heads_ + value_heads_) * dim_ + 2 * value_heads_};
  }
  std::uint32_t cols() const override { return value_heads_ * dim_; }

 private:
  static Floats negative(Floats values) {
    for (float& value : values) value -= 1.0f;
    return values;
  }

  void enqueue(const Rows& tokens, std::span<const RecurrentRows> sequences,
               const Matrix& y) const override {
    const OwnedMatrix qkv = gathered(qkv_, tokens);
    const OwnedMatrix alpha = gathered(alpha_, tokens);
    const OwnedMatrix beta = gathered(beta_, tokens);
    backend_.delta_rule({.qkv = without_gap(qkv),
                         .alpha = without_gap(alpha),
                         .beta = without_gap(beta),
                         .decay = decay_.table,
                         .time_bias = time_bias_.table,
                         .key_heads = key_heads_,
                         .value_heads = value_heads_,
                         .dim = dim_,
                         .epsilon = 1e-6f,
                         .y = y,
                         .sequences = sequences});
  }

  std::uint32_t key_heads_;
  std::uint32_t value_heads_;
  std::uint32_t dim_;
  TestWeight decay_;
  TestWeight time_bias_;
  Floats qkv_;
  Floats alpha_;
  Floats beta_;
};

inline std::vector<std::unique_ptr<RecurrentOperation>> operations(Backend& backend) {
  std::vector<std::unique_ptr<RecurrentOperation>> all;
  all.push_back(std::make_unique<Convolution>(backend, 300, 4, Activation::silu));
  all.push_back(std::make_unique<Convolution>(backend, 5, 3, Activation::identity));
  all.push_back(std::make_unique<DeltaRule>(backend, 2, 4, 16));
  all.push_back(std::make_unique<DeltaRule>(backend, 1, 1, 21));
  all.push_back(std::make_unique<DeltaRule>(backend, 1, 2, 128));
  return all;
}

}  // namespace edgedraft::testing
