#include "shared/runtime/weight_store.h"

#include "tests/runtime/op_test.h"

namespace edgedraft::testing {
namespace {

using WeightStoreTest = OpTest;

// Norms and biases are read as float32 for any stored type.
TEST_P(WeightStoreTest, ConvertsHalfVectorsForNorms) {
  for (const DType type : {DType::f16, DType::bf16}) {
    Bytes bytes(4);
    quantize_row(type, Floats{1.0f, 10.0f}, bytes);
    const TensorView norm{.type = type, .rows = 1, .cols = 2, .bytes = bytes};
    WeightStore store(backend());
    const OwnedMatrix x = matrix_of(backend(), 1, 2, Floats{3, 4});
    const OwnedMatrix y(backend(), 1, 2);
    backend().rms_norm(
        {.x = x.all(), .weight = store.add_vector(norm), .y = y.all(), .epsilon = 3.5f});
    EXPECT_EQ(values_of(backend(), y.all()), (Floats{0.75f, 10.0f})) << traits(type).name;
  }
}

TEST_P(WeightStoreTest, AbsentTensorStaysAbsent) {
  EXPECT_FALSE(WeightStore(backend()).add(TensorView{}));
}

EDGEDRAFT_FOR_ALL_BACKENDS(WeightStoreTest);

}  // namespace
}  // namespace edgedraft::testing
