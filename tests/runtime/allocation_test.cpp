#include <atomic>
#include <cstdlib>
#include <new>

#include "shared/runtime/layer.h"
#include "tests/runtime/op_test.h"

namespace {

std::atomic<std::uint64_t> allocation_count = 0;

}  // namespace

// Counts every allocation of this program. Not inlined: GCC 12 would miss one half of a pair.
void* operator new(std::size_t bytes) {
  ++allocation_count;
  void* memory = std::malloc(bytes);
  if (memory == nullptr) throw std::bad_alloc();
  return memory;
}
void* operator new(std::size_t bytes, const std::nothrow_t&) noexcept {
  ++allocation_count;
  return std::malloc(bytes);
}
[[gnu::noinline]] void operator delete(void* memory) noexcept {
  std::free(memory);
}
[[gnu::noinline]] void operator delete(void* memory, std::size_t) noexcept {
  std::free(memory);
}

namespace edgedraft::testing {
namespace {

using AllocationTest = OpTest;

TEST_P(AllocationTest, RepeatedOperationsAllocateNothing) {
  constexpr std::uint32_t kRows = 40;
  const HeadShape heads{.query_heads = 4, .kv_heads = 2, .head_dim = 32};
  const std::uint32_t dim = heads.query_cols();
  const OwnedMatrix x = matrix_of(backend(), kRows, dim, random_floats(1, kRows * dim));
  const OwnedMatrix y(backend(), kRows, dim);
  const OwnedMatrix wide(backend(), kRows, 1000);
  const OwnedMatrix keys(backend(), 2 * kRows, heads.kv_cols());
  const OwnedMatrix values(backend(), 2 * kRows, heads.kv_cols());
  const OwnedMatrix gathered(backend(), 2, 2 * heads.kv_cols());
  const OwnedMatrix cos_sin = make_rope_table(backend(), {}, heads.head_dim, 64);
  const TestWeight norm(backend(), DType::f32, 1, dim, random_floats(2, dim));
  const TestWeight w(backend(), DType::q8_0, 1000, dim, random_floats(3, 1000 * dim));
  const TestWeight floats(backend(), DType::f16, 1000, dim, random_floats(4, 1000 * dim));
  const std::vector<AncestorMask> masks = causal_masks(kRows);
  const std::vector<std::uint32_t> positions(kRows, 5);
  const std::vector<std::uint32_t> slots = {1, 3};
  const std::vector<CacheView> layers = {keys.all()};
  const std::vector<std::uint32_t> one_slot = {1, 2};
  const TestWeight taps(backend(), DType::f32, dim, 4, random_floats(5, dim * 4));
  const TestWeight gates(backend(), DType::f32, 1, 1, Floats{-1.0f});
  const OwnedMatrix taps_state(backend(), 3, dim);
  const OwnedMatrix delta_state(backend(), heads.head_dim, heads.head_dim);
  const OwnedMatrix kept(backend(), kMaskRowsMax, dim);
  const std::vector<std::uint32_t> parents(kRows, kNoParent);
  const RecurrentRows convolved{.rows = kRows,
                                .state = taps_state.all(),
                                .kept = kept.all(),
                                .pending = {},
                                .settled = 0,
                                .first = 0,
                                .parents = parents};
  RecurrentRows updated = convolved;
  updated.state = delta_state.all();
  updated.kept = kept.all().column_range(0, 2 * heads.head_dim + 2);
  const std::uint32_t experts = 4;
  const TestStack stack(backend(), DType::q8_0, experts, 50, dim);
  const OwnedMatrix chosen(backend(), kRows, 2);
  const OwnedMatrix shares(backend(), kRows, 2);
  const OwnedMatrix of_experts(backend(), 2 * kRows, 50);
  std::vector<std::uint32_t> tokens(kRows * 4);
  Floats log_probs(kRows * 4);

  const auto run = [&] {
    backend().embed({.table = w.table, .tokens = positions, .y = y.all()});
    backend().rms_norm({.x = x.all(), .weight = norm.table, .y = y.all(), .epsilon = 1e-5f});
    backend().matmul({.x = x.all(), .weight = w.weight, .bias = {}, .y = wide.all()});
    backend().matmul({.x = x.all(), .weight = floats.weight, .bias = {}, .y = wide.all()});
    backend().rope({.x = y.all(),
                    .positions = positions,
                    .cos_sin = cos_sin.all(),
                    .head_dim = heads.head_dim,
                    .rotated = heads.head_dim,
                    .style = RopeStyle::halves});
    backend().store(
        {.x = y.all().column_range(0, heads.kv_cols()), .cache = keys.all(), .first = 3});
    backend().attention({.q = x.all(),
                         .keys = keys.all(),
                         .values = values.all(),
                         .prefix = kRows,
                         .masks = masks,
                         .heads = heads,
                         .y = y.all(),
                         .scale = heads.score_scale()});
    backend().group_attention({.q = x.all(),
                               .k = keys.rows(kRows),
                               .v = values.rows(kRows),
                               .group_rows = 4,
                               .heads = heads,
                               .y = y.all()});
    backend().gate({.gate = x.all(), .up = y.all(), .y = y.all(), .activation = Activation::silu});
    backend().compact({.cache = keys.all(), .first = 0, .slots = slots});
    backend().gather_layers({.keys = layers,
                             .values = layers,
                             .slots = one_slot,
                             .heads = heads,
                             .style = RopeStyle::halves,
                             .y = gathered.all()});
    backend().group_mean({.x = x.all(), .group_rows = 4, .y = y.rows(kRows / 4)});
    backend().top_k({.logits = wide.all(), .k = 4, .tokens = tokens, .log_probs = log_probs});
    backend().argmax({.logits = wide.all(), .tokens = std::span(tokens).first(kRows)});
    backend().scale({.x = wide.all(), .factor = 0.5f});
    backend().soft_cap({.x = wide.all(), .cap = 30.0f});
    backend().convolve({.x = x.all(),
                        .weight = taps.table,
                        .activation = Activation::silu,
                        .y = y.all(),
                        .sequences = {&convolved, 1}});
    backend().delta_rule({.qkv = x.all().column_range(0, 3 * heads.head_dim),
                          .alpha = x.all().column_range(0, 1),
                          .beta = x.all().column_range(1, 1),
                          .decay = gates.table,
                          .time_bias = gates.table,
                          .key_heads = 1,
                          .value_heads = 1,
                          .dim = heads.head_dim,
                          .epsilon = 1e-6f,
                          .y = y.all().column_range(0, heads.head_dim),
                          .sequences = {&updated, 1}});
    backend().route({.logits = x.all().column_range(0, experts),
                     .used = 2,
                     .experts = chosen.all(),
                     .weights = shares.all()});
    backend().expert_matmul({.x = x.all(),
                             .weight = stack.weight,
                             .bias = {},
                             .experts = chosen.all(),
                             .y = of_experts.all()});
    backend().mix(
        {.x = of_experts.all(), .weights = shares.all(), .y = wide.all().column_range(0, 50)});
  };
  run();
  const std::uint64_t before = allocation_count;
  run();
  EXPECT_EQ(allocation_count, before);
}

EDGEDRAFT_FOR_CPU_BACKENDS(AllocationTest, 2);

}  // namespace
}  // namespace edgedraft::testing
