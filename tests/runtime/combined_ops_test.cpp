#include <algorithm>
#include <cmath>
#include <string>
#include <vector>

#include "shared/runtime/layer.h"
#include "tests/runtime/op_test.h"

// Fused operations against the same ones run separately.
namespace edgedraft::testing {
namespace {

using CombinedOpsTest = OpTest;

// Types of the weights that read one result.
using Types = std::vector<DType>;
std::string names(const Types& types) {
  std::string all;
  for (const DType type : types) all += std::string(traits(type).name) + " ";
  return all;
}

// Each type alone, and mixtures as in files: two packings, and a float type beside one rounded to
// int8.
std::vector<Types> families() {
  std::vector<Types> all;
  for (const DType type : kDTypes) all.push_back({type, type});
  all.push_back({DType::q4_k, DType::q4_k, DType::q6_k});
  all.push_back({DType::q8_0, DType::f16, DType::q8_0});
  return all;
}

bool fit(const Types& types, std::uint32_t inputs) {
  return std::ranges::all_of(types,
                             [&](DType type) { return inputs % traits(type).block_count == 0; });
}

// Rows at arbitrary offsets, including one of zeros, one too small to round, one whose squares
// overflow, and one with an infinity.
class Rows {
 public:
  static constexpr std::uint32_t kCount = 6;

  Rows(Backend& backend, std::uint64_t seed, std::uint32_t cols, std::uint32_t apart)
      : matrix_(matrix_of(backend, kCount, cols + apart, numbers(seed, cols + apart))),
        cols_(cols),
        first_(apart / 2) {}

  Matrix all() const { return matrix_.all().column_range(first_, cols_); }

 private:
  static Floats numbers(std::uint64_t seed, std::uint32_t cols) {
    Floats x = random_floats(seed, std::size_t{kCount} * cols);
    const auto scale = [&](std::uint32_t row, float factor) {
      for (std::uint32_t i = 0; i < cols; ++i) x[std::size_t{row} * cols + i] *= factor;
    };
    scale(1, 0.0f);
    scale(2, 1e-35f);
    scale(3, 1e25f);
    x[std::size_t{4} * cols + cols / 2] = INFINITY;
    return x;
  }

  OwnedMatrix matrix_;
  std::uint32_t cols_;
  std::uint32_t first_;
};

// Matmuls of an input computed elsewhere, each with a bias and added to its output.
class Products {
 public:
  Products(Backend& backend, const Types& types, std::uint32_t inputs) : backend_(backend) {
    weights_.reserve(types.size());
    outputs_.reserve(types.size());
    for (const DType type : types) {
      weights_.emplace_back(backend, type, kOutputs, inputs,
                            random_floats(weights_.size(), std::size_t{kOutputs} * inputs));
      outputs_.emplace_back(backend, Rows::kCount, kOutputs);
    }
    bias_.emplace_back(backend, DType::f32, 1, kOutputs, random_floats(9, kOutputs));
  }

  std::vector<MatmulOp> of(const Matrix& x) const {
    const Floats before = random_floats(10, std::size_t{Rows::kCount} * kOutputs);
    std::vector<MatmulOp> ops;
    for (std::size_t i = 0; i < weights_.size(); ++i) {
      backend_.write(outputs_[i].all(), before);
      ops.push_back({.x = x,
                     .weight = weights_[i].weight,
                     .bias = bias_[0].table,
                     .y = outputs_[i].all(),
                     .into = Into::accumulate});
    }
    return ops;
  }
  Floats values() const {
    Floats all;
    for (const OwnedMatrix& y : outputs_) {
      const Floats some = values_of(backend_, y.all());
      all.insert(all.end(), some.begin(), some.end());
    }
    return all;
  }

 private:
  static constexpr std::uint32_t kOutputs = 9;

  Backend& backend_;
  std::vector<TestWeight> weights_;
  std::vector<TestWeight> bias_;
  std::vector<OwnedMatrix> outputs_;
};

// A part of a group, several groups, and rows longer than a block of the CUDA kernel keeps.
const std::vector<std::uint32_t> kInputs = {32, 96, 256, 1120, 2304, 8704};

// Row gaps of whole vectors of four values, and others.
constexpr std::uint32_t kApart[] = {0, 8, 3};

TEST_P(CombinedOpsTest, NormAndMatmulsMatchSeparateOps) {
  for (const Types& types : families()) {
    for (const std::uint32_t inputs : kInputs) {
      if (!fit(types, inputs)) continue;
      const TestWeight weight(backend(), DType::f32, 1, inputs, random_floats(3, inputs));
      const Products products(backend(), types, inputs);
      for (const std::uint32_t apart : kApart) {
        const Rows x(backend(), inputs, inputs, apart);
        const Rows y(backend(), 2, inputs, apart);
        const RmsNormOp norm{.x = x.all(), .weight = weight.table, .y = y.all(), .epsilon = 1e-6f};
        backend().rms_norm(norm);
        backend().matmuls(products.of(y.all()));
        const Floats expected = products.values();
        backend().norm_matmuls(norm, products.of(y.all()));
        EXPECT_TRUE(same_bytes(products.values(), expected))
            << names(types) << inputs << " inputs, " << apart << " apart";
      }
    }
  }
}

TEST_P(CombinedOpsTest, GateAndMatmulMatchSeparateOps) {
  const auto expect_match = [&](DType type, std::uint32_t inputs, Activation activation,
                                bool one_gate) {
    if (!fit({type}, inputs)) return;
    const Products products(backend(), {type}, inputs);
    for (const std::uint32_t apart : kApart) {
      const auto run = [&](bool together) {
        const Rows gate(backend(), inputs, inputs, apart);
        const Rows up(backend(), 2, inputs, apart);
        const GateOp gated{.gate = one_gate ? gate.all().column_range(1, 1) : gate.all(),
                           .up = up.all(),
                           .y = one_gate ? up.all() : gate.all(),
                           .activation = activation};
        const MatmulOp product = products.of(gated.y)[0];
        if (together) {
          backend().gate_matmul(gated, product);
        } else {
          backend().gate(gated);
          backend().matmul(product);
        }
        return products.values();
      };
      const Floats expected = run(false);
      EXPECT_TRUE(same_bytes(run(true), expected))
          << traits(type).name << ", " << inputs << " inputs, " << apart << " apart, activation "
          << static_cast<int>(activation) << (one_gate ? ", one gate" : "");
    }
  };
  for (const DType type : kDTypes) {
    for (const std::uint32_t inputs : kInputs) {
      expect_match(type, inputs, Activation::silu, false);
    }
  }
  for (const Activation activation :
       {Activation::gelu, Activation::clamped, Activation::sigmoid, Activation::identity}) {
    for (const bool one_gate : {false, true}) {
      expect_match(DType::q8_0, 96, activation, one_gate);
      expect_match(DType::q8_0, 1120, activation, one_gate);
    }
  }
}

// Two sequences that share a memory, one with its own, and one in the shared memory again. Caches
// and queries equal those of separate rope and store.
TEST_P(CombinedOpsTest, RotationAndStoresMatchSeparateOps) {
  constexpr std::uint32_t kQueryCols = 160;
  constexpr std::uint32_t kCols = 80;
  constexpr std::uint32_t kHeadDim = 20;
  constexpr std::uint32_t kRotated = 8;
  constexpr std::uint32_t kSlots = 32;
  constexpr std::uint32_t kPageSlots = 4;
  struct Place {
    std::uint32_t rows;
    std::uint32_t first;
    bool is_shared;
    std::vector<std::uint32_t> pages;
  };
  const std::vector<Place> places = {{.rows = 3, .first = 5, .is_shared = true, .pages = {7, 0, 4}},
                                     {.rows = 1, .first = 2, .is_shared = true, .pages = {2}},
                                     {.rows = 4, .first = 0, .is_shared = false, .pages = {6}},
                                     {.rows = 2, .first = 2, .is_shared = true, .pages = {3, 5}}};
  const std::vector<std::uint32_t> positions = {9, 40, 41, 3, 0, 1, 2, 63, 17, 18};
  const auto rows = static_cast<std::uint32_t>(positions.size());
  const OwnedMatrix angles = make_rope_table(backend(), {}, kHeadDim, 64);
  const OwnedMatrix few_angles = make_rope_table(backend(), {}, kRotated, 64);

  const auto run = [&](DType type, RopeStyle style, std::uint32_t rotated, std::uint32_t apart,
                       bool together) {
    const Matrix cos_sin = rotated == kHeadDim   ? angles.all()
                           : rotated == kRotated ? few_angles.all()
                                                 : Matrix{};
    const auto numbers = [&](std::uint64_t seed, std::uint32_t cols) {
      return matrix_of(backend(), rows, cols + apart,
                       random_floats(seed, std::size_t{rows} * (cols + apart)));
    };
    const OwnedMatrix q = numbers(1, kQueryCols);
    const OwnedMatrix k = numbers(2, kCols);
    const OwnedMatrix v = numbers(3, kCols);
    const auto inner = [&](const OwnedMatrix& m, std::uint32_t cols) {
      return m.all().column_range(apart / 2, cols);
    };
    // Zeros: first keys and values of the sequences with their own memory, then of the others.
    std::vector<OwnedMatrix> memories;
    for (int i = 0; i < 4; ++i) memories.emplace_back(backend(), kSlots, kCols);
    const auto memory = [&](std::size_t i) {
      return CacheRows(memories[i].all().buffer, 0, kSlots, kCols, type);
    };
    std::vector<RopeStoreOp::Sequence> sequences;
    for (const Place& p : places) {
      const std::size_t of = p.is_shared ? 2 : 0;
      RopeStoreOp::Sequence s{
          .rows = p.rows, .keys = memory(of), .values = memory(of + 1), .first = p.first};
      if (backend().takes_pages()) {
        s.keys = CacheView(memory(of), p.pages, kPageSlots);
        s.values = CacheView(memory(of + 1), p.pages, kPageSlots);
      }
      sequences.push_back(s);
    }
    const RopeStoreOp op{.q = inner(q, kQueryCols),
                         .k = inner(k, kCols),
                         .v = inner(v, kCols),
                         .positions = positions,
                         .cos_sin = cos_sin,
                         .head_dim = kHeadDim,
                         .rotated = rotated,
                         .style = style,
                         .sequences = sequences};
    if (together) {
      backend().rope_store(op);
    } else {
      for (const Matrix& x : {op.q, op.k}) {
        backend().rope({.x = x,
                        .positions = positions,
                        .cos_sin = op.cos_sin,
                        .head_dim = op.head_dim,
                        .rotated = op.rotated,
                        .style = style});
      }
      std::uint32_t row = 0;
      for (const RopeStoreOp::Sequence& s : sequences) {
        backend().store({.x = op.k.row_range(row, s.rows), .cache = s.keys, .first = s.first});
        backend().store({.x = op.v.row_range(row, s.rows), .cache = s.values, .first = s.first});
        row += s.rows;
      }
    }
    Floats results = values_of(backend(), q.all());
    for (std::size_t i = 0; i < memories.size(); ++i) {
      Floats stored(std::size_t{kSlots} * kCols);
      backend().read_cache(memory(i), stored);
      results.insert(results.end(), stored.begin(), stored.end());
    }
    return results;
  };
  for (const DType type : kCacheTypes) {
    if (!backend().takes_cache_type(type)) continue;
    for (const RopeStyle style : {RopeStyle::halves, RopeStyle::pairs}) {
      for (const std::uint32_t rotated : {kHeadDim, kRotated, 0u}) {
        for (const std::uint32_t apart : {0u, 3u}) {
          EXPECT_TRUE(same_bytes(run(type, style, rotated, apart, true),
                                 run(type, style, rotated, apart, false)))
              << traits(type).name << (style == RopeStyle::pairs ? ", pairs, " : ", halves, ")
              << rotated << " rotated, " << apart << " apart";
        }
      }
    }
  }
}

EDGEDRAFT_FOR_ALL_BACKENDS(CombinedOpsTest);

}  // namespace
}  // namespace edgedraft::testing
