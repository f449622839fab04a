#include <zlib.h>

#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>
#include <numeric>
#include <span>
#include <string_view>
#include <vector>

#include "shared/runtime/layer.h"
#include "tests/runtime/op_test.h"
#include "tests/support/skip.h"

// Runs one workload on two CPU backends. Thread counts never change a bit, nor does the choice
// between AVX2 and AVX-512, or between x86 and Arm. The x86 baseline rounds each product before
// adding, and tiles sum bfloat16 products in another order, so their results are close but not
// equal.
namespace edgedraft::testing {
namespace {

// bf16 is computed on tiles if there are any.
const std::vector<DType> kWritableButBf16 = [] {
  std::vector<DType> types(std::begin(kDTypes), std::end(kDTypes));
  std::erase_if(types, [](DType type) { return type == DType::bf16 || !is_writable(type); });
  return types;
}();
const std::vector<DType> kReadOnly = [] {
  std::vector<DType> types(std::begin(kDTypes), std::end(kDTypes));
  std::erase_if(types, is_writable);
  return types;
}();

// Runs every computing operation and matmuls of `types` at sizes with remainders; returns all
// results.
Floats all_results(Backend& backend, std::span<const DType> types) {
  Floats results;
  const auto keep = [&](const OwnedMatrix& matrix) {
    const Floats values = values_of(backend, matrix.all());
    results.insert(results.end(), values.begin(), values.end());
  };
  constexpr std::uint32_t kRows = 37;
  const HeadShape heads{.query_heads = 6, .kv_heads = 2, .head_dim = 40};
  const std::uint32_t dim = heads.query_cols();

  for (const DType type : types) {
    const std::uint32_t inputs = traits(type).block_count <= 32 ? 576 : 512;
    for (const std::uint32_t rows : {1u, 3u, 12u, kRows}) {
      const TestWeight w(backend, type, 515, inputs, random_floats(1, 515 * inputs));
      const OwnedMatrix x = matrix_of(backend, rows, inputs, random_floats(2, rows * inputs));
      const OwnedMatrix y(backend, rows, 515);
      backend.matmul({.x = x.all(), .weight = w.weight, .bias = {}, .y = y.all()});
      keep(y);
    }
  }

  const OwnedMatrix q = matrix_of(backend, kRows, dim, random_floats(3, kRows * dim));
  const OwnedMatrix keys = matrix_of(backend, 400, heads.kv_cols(), random_floats(4, 400 * 80));
  const OwnedMatrix values = matrix_of(backend, 400, heads.kv_cols(), random_floats(5, 400 * 80));
  const OwnedMatrix y(backend, kRows, dim);
  backend.attention({.q = q.all(),
                     .keys = keys.all(),
                     .values = values.all(),
                     .prefix = 333,
                     .masks = causal_masks(kRows),
                     .heads = heads,
                     .y = y.all(),
                     .scale = heads.score_scale()});
  keep(y);
  backend.group_attention({.q = q.all(),
                           .k = keys.rows(kRows),
                           .v = values.rows(kRows),
                           .group_rows = kRows,
                           .heads = heads,
                           .y = y.all()});
  keep(y);

  const TestWeight norm(backend, DType::f32, 1, dim, random_floats(6, dim));
  backend.rms_norm({.x = q.all(), .weight = norm.table, .y = y.all(), .epsilon = 1e-5f});
  keep(y);
  backend.gate({.gate = q.all(), .up = y.all(), .y = y.all(), .activation = Activation::silu});
  keep(y);

  const OwnedMatrix logits = matrix_of(backend, 9, 20011, random_floats(7, std::size_t{9} * 20011));
  std::vector<std::uint32_t> tokens(90);
  Floats log_probs(90);
  backend.top_k({.logits = logits.all(), .k = 10, .tokens = tokens, .log_probs = log_probs});
  results.insert(results.end(), log_probs.begin(), log_probs.end());
  for (const std::uint32_t token : tokens) results.push_back(static_cast<float>(token));

  std::vector<std::uint32_t> positions(kRows);
  std::iota(positions.begin(), positions.end(), 333u);
  const TestWeight sinks(backend, DType::f32, 1, heads.query_heads, random_floats(8, 6));
  backend.attention({.q = q.all(),
                     .keys = keys.all(),
                     .values = values.all(),
                     .prefix = 333,
                     .masks = causal_masks(kRows),
                     .heads = heads,
                     .y = y.all(),
                     .scale = 0.25f,
                     .window = 150,
                     .positions = positions,
                     .sinks = sinks.table});
  keep(y);
  const TestWeight head_norm(backend, DType::f32, 1, heads.head_dim, random_floats(9, 40));
  backend.rms_norm({.x = q.all(),
                    .weight = head_norm.table,
                    .y = y.all(),
                    .epsilon = 1e-5f,
                    .into = Into::accumulate});
  keep(y);
  const OwnedMatrix gated(backend, kRows, dim);
  for (const Activation activation :
       {Activation::gelu, Activation::clamped, Activation::sigmoid, Activation::identity}) {
    backend.gate({.gate = q.all(), .up = y.all(), .y = gated.all(), .activation = activation});
    keep(gated);
  }
  backend.scale({.x = y.all(), .factor = 3.0f});
  backend.soft_cap({.x = y.all(), .cap = 2.0f});
  keep(y);
  return results;
}

Floats results_with(const cpu::Kernels& kernels, std::uint32_t threads,
                    std::span<const DType> types = kDTypes) {
  const auto backend = make_cpu_backend_with(kernels, {.threads = threads});
  return all_results(*backend, types);
}

// All Arm sets use fused multiply-add; other baselines do not.
std::vector<const cpu::Kernels*> sets_that_fuse() {
  std::vector<const cpu::Kernels*> sets;
  for (const auto* kernels = cpu::available_kernels(); *kernels != nullptr; ++kernels) {
    if (std::string_view((*kernels)->name) != "baseline") sets.push_back(*kernels);
  }
  return sets;
}

void expect_close(const Floats& a, const Floats& b) {
  ASSERT_EQ(a.size(), b.size());
  for (std::size_t i = 0; i < a.size(); ++i) {
    // Sums have at most 576 products, each below 1, so they are mostly of order 10.
    ASSERT_NEAR(a[i], b[i], 2e-5) << i;
  }
}

TEST(InstructionSetTest, ThreadCountDoesNotChangeBytes) {
  for (const auto* kernels = cpu::available_kernels(); *kernels != nullptr; ++kernels) {
    const Floats alone = results_with(**kernels, 1);
    for (const std::uint32_t threads : {2u, 3u, 7u}) {
      EXPECT_TRUE(same_bytes(results_with(**kernels, threads), alone))
          << (*kernels)->name << " on " << threads;
    }
  }
}

TEST(InstructionSetTest, FusingSetsGiveSameBytes) {
  const auto sets = sets_that_fuse();
  if (sets.empty()) EDGEDRAFT_SKIP_WITHOUT("avx2", "this CPU has the baseline only");
  for (const auto& types : {kWritableButBf16, kReadOnly}) {
    const Floats first = results_with(*sets.front(), 1, types);
    for (const cpu::Kernels* kernels : std::span(sets).subspan(1)) {
      EXPECT_TRUE(same_bytes(results_with(*kernels, 1, types), first)) << kernels->name;
    }
  }
}

TEST(InstructionSetTest, FusingSetsWithoutTilesGiveSameBfloat16Bytes) {
  constexpr DType kBf16[] = {DType::bf16};
  const auto sets = sets_that_fuse();
  if (sets.empty()) EDGEDRAFT_SKIP_WITHOUT("avx2", "this CPU has the baseline only");
  const Floats first = results_with(*sets.front(), 1, kBf16);
  for (const cpu::Kernels* kernels : std::span(sets).subspan(1)) {
    if (kernels->tile_matmul != nullptr) continue;
    EXPECT_TRUE(same_bytes(results_with(*kernels, 1, kBf16), first)) << kernels->name;
  }
}

// A machine may have only one such set, and never both x86 and Arm sets. The CRCs were recorded
// with AVX2.
TEST(InstructionSetTest, FusingSetsMatchRecordedBytes) {
  const auto sets = sets_that_fuse();
  if (sets.empty()) EDGEDRAFT_SKIP_WITHOUT("avx2", "this CPU has the baseline only");
  for (const cpu::Kernels* kernels : sets) {
    const auto crc = [kernels](std::span<const DType> types) {
      const Floats results = results_with(*kernels, 1, types);
      const auto* bytes = reinterpret_cast<const Bytef*>(results.data());
      return crc32(0, bytes, static_cast<uInt>(results.size() * sizeof(float)));
    };
    EXPECT_EQ(crc(kWritableButBf16), 4263358122u) << kernels->name;
    EXPECT_EQ(crc(kReadOnly), 3285891849u) << kernels->name;
  }
}

TEST(InstructionSetTest, BaselineIsCloseToBestSet) {
  expect_close(results_with(*cpu::available_kernels()[0], 1), results_with(cpu::best_kernels(), 1));
}

TEST(InstructionSetTest, Bfloat16TilesAreAsExactAsFloat32) {
  const cpu::Kernels& best = cpu::best_kernels();
  if (best.tile_matmul == nullptr) EDGEDRAFT_SKIP_WITHOUT("amx", "this CPU has no bfloat16 tiles");
  for (const auto* kernels = cpu::available_kernels(); *kernels != &best; ++kernels) {
    SCOPED_TRACE((*kernels)->name);
    expect_close(results_with(**kernels, 1), results_with(best, 1));
  }
}

// A non-finite activation spoils only its own row, as in float32.
TEST(InstructionSetTest, NonFiniteActivationsAffectOnlyTheirRow) {
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  const auto backend = make_cpu_backend_with(cpu::best_kernels(), {.threads = 1});
  const TestWeight w(*backend, DType::bf16, 3, 32, Floats(3 * 32, 0.5f));
  Floats x(4 * 32, 1.0f);
  x[5] = kInfinity;
  x[32 + 7] = -kInfinity;
  x[64 + 9] = std::numeric_limits<float>::quiet_NaN();
  const OwnedMatrix in = matrix_of(*backend, 4, 32, x);
  const OwnedMatrix y(*backend, 4, 3);
  backend->matmul({.x = in.all(), .weight = w.weight, .bias = {}, .y = y.all()});
  const Floats got = values_of(*backend, y.all());
  for (std::size_t column = 0; column < 3; ++column) {
    EXPECT_EQ(got[column], kInfinity);
    EXPECT_EQ(got[3 + column], -kInfinity);
    EXPECT_TRUE(std::isnan(got[6 + column]));
    EXPECT_EQ(got[9 + column], 16.0f);
  }
}

// A damaged cache holds NaNs of any bits; none may pass for a weight.
TEST(InstructionSetTest, NanKeyMakesAttentionNan) {
  constexpr HeadShape kHeads{.query_heads = 1, .kv_heads = 1, .head_dim = 8};
  constexpr std::uint32_t kSlots = 3;
  for (const auto* kernels = cpu::available_kernels(); *kernels != nullptr; ++kernels) {
    SCOPED_TRACE((*kernels)->name);
    const auto backend = make_cpu_backend_with(**kernels, {.threads = 1});
    const OwnedMatrix q = matrix_of(*backend, 1, 8, Floats(8, 1.0f));
    const OwnedMatrix values = matrix_of(*backend, kSlots, 8, Floats(kSlots * 8, 1.0f));
    const OwnedMatrix y(*backend, 1, 8);
    for (const std::uint32_t bits : {0x7fc00000u, 0x7fc00001u, 0x7fc000ffu, 0xffc00080u}) {
      Floats numbers(kSlots * 8, 0.25f);
      numbers[8 + 2] = std::bit_cast<float>(bits);
      const OwnedMatrix keys = matrix_of(*backend, kSlots, 8, numbers);
      backend->attention({.q = q.all(),
                          .keys = keys.all(),
                          .values = values.all(),
                          .prefix = kSlots,
                          .masks = {},
                          .heads = kHeads,
                          .y = y.all(),
                          .scale = kHeads.score_scale()});
      for (const float number : values_of(*backend, y.all())) EXPECT_TRUE(std::isnan(number));
    }
  }
}

}  // namespace
}  // namespace edgedraft::testing
