#include "tests/runtime/op_test.h"

namespace edgedraft::testing {
namespace {

using BackendTest = OpTest;

TEST_P(BackendTest, AllocatesZeros) {
  const OwnedMatrix matrix(backend(), 3, 100);
  EXPECT_EQ(values_of(backend(), matrix.all()), Floats(300, 0.0f));
}

TEST_P(BackendTest, ReadsMatrixPartsPacked) {
  const OwnedMatrix matrix = matrix_of(backend(), 3, 3, Floats{1, 2, 3, 4, 5, 6, 7, 8, 9});
  EXPECT_EQ(values_of(backend(), matrix.all().row_range(1, 2)), (Floats{4, 5, 6, 7, 8, 9}));
  EXPECT_EQ(values_of(backend(), matrix.all().column_range(1, 2).row_range(0, 2)),
            (Floats{2, 3, 5, 6}));
}

TEST_P(BackendTest, WritesMatrixParts) {
  const OwnedMatrix matrix(backend(), 2, 3);
  backend().write(matrix.all().column_range(1, 2), Floats{1, 2, 3, 4});
  EXPECT_EQ(values_of(backend(), matrix.all()), (Floats{0, 1, 2, 0, 3, 4}));
}

// Files may place a tensor at any offset.
TEST_P(BackendTest, AcceptsUnalignedBytes) {
  Bytes bytes(9);
  for (std::size_t shift = 0; shift < 5; ++shift) {
    store_le(&bytes[shift], 1.5f);
    const auto buffer = backend().upload(ByteView(bytes).subspan(shift, 4));
    const OwnedMatrix y(backend(), 1, 1);
    const std::vector<std::uint32_t> tokens = {0};
    backend().embed(
        {.table = {.buffer = buffer.get(), .rows = 1, .cols = 1}, .tokens = tokens, .y = y.all()});
    EXPECT_EQ(values_of(backend(), y.all()), (Floats{1.5f})) << "at byte " << shift;
  }
}

TEST_P(BackendTest, ReportsOutOfMemory) {
#if !defined(__SANITIZE_ADDRESS__)  // its calloc aborts instead
  EXPECT_THROW(backend().allocate(std::uint64_t{1} << 60), DeviceError);
#endif
  EXPECT_THROW(backend().allocate(std::uint64_t{1} << 63), DeviceError);
}

// A failed operation may be retried, and other operations still work.
TEST(CpuBackendTest, RecoversFromOutOfMemory) {
  const HeadShape wide{.query_heads = 64, .kv_heads = 1, .head_dim = 64};
  const HeadShape narrow{.query_heads = 1, .kv_heads = 1, .head_dim = 64};
  const auto memory = make_cpu_backend({.threads = 1});
  const OwnedMatrix q = matrix_of(*memory, 1, wide.query_cols(), Floats(wide.query_cols(), 1.0f));
  const OwnedMatrix kv = matrix_of(*memory, 1, wide.kv_cols(), Floats(wide.kv_cols(), 2.0f));
  const OwnedMatrix y(*memory, 1, wide.query_cols());
  const auto attention = [&](const HeadShape& heads) {
    const std::uint32_t cols = heads.query_cols();
    return AttentionOp{.q = q.all().column_range(0, cols),
                       .keys = kv.all(),
                       .values = kv.all(),
                       .prefix = 1,
                       .masks = {},
                       .heads = heads,
                       .y = y.all().column_range(0, cols),
                       .scale = heads.score_scale()};
  };
  // Less than the attention of `wide` needs.
  const auto meter = std::make_shared<MemoryMeter>(std::uint64_t{256} << 10);
  const auto backend = make_cpu_backend({.threads = 1, .meter = meter});
  for (int i = 0; i < 2; ++i) {
    EXPECT_THROW(backend->attention(attention(wide)), DeviceError);
    backend->gate({.gate = q.all(), .up = q.all(), .y = y.all(), .activation = Activation::silu});
    EXPECT_NEAR(values_of(*backend, y.all())[0], 0.731f, 0.001f);
    backend->attention(attention(narrow));
    EXPECT_EQ(values_of(*backend, y.all())[0], 2.0f);
  }
}

using BackendDeathTest = OpTest;

TEST_P(BackendDeathTest, RejectsOutOfBoundsOperands) {
  GTEST_FLAG_SET(death_test_style, "threadsafe");
  const OwnedMatrix x(backend(), 2, 4);
  const OwnedMatrix y(backend(), 2, 3);
  const TestWeight w(backend(), DType::f32, 3, 4, Floats(12));
  const std::vector<std::uint32_t> tokens = {3};

  EXPECT_DEATH(x.all().row_range(1, 2), "");
  EXPECT_DEATH(x.all().column_range(3, 2), "");
  EXPECT_DEATH(backend().matmul({.x = y.all(), .weight = w.weight, .bias = {}, .y = y.all()}),
               "weight.cols");
  EXPECT_DEATH(backend().embed({.table = w.weight, .tokens = tokens, .y = x.rows(1)}),
               "table.rows");
  Matrix beyond = x.all();
  beyond.rows = 1000;
  EXPECT_DEATH(values_of(backend(), beyond), "");
}

EDGEDRAFT_FOR_ALL_BACKENDS(BackendTest);
INSTANTIATE_TEST_SUITE_P(Backends, BackendDeathTest,
                         ::testing::Values(BackendFactory{"reference", make_reference_backend}),
                         backend_name);

}  // namespace
}  // namespace edgedraft::testing
