#include <numeric>

#include "tests/runtime/op_test.h"

namespace edgedraft::testing {
namespace {

using StoreTest = OpTest;
using CompactTest = OpTest;
using GatherLayersTest = OpTest;

TEST_P(StoreTest, CopiesRowsToTheirSlots) {
  const OwnedMatrix x = matrix_of(backend(), 2, 2, Floats{1, 2, 3, 4});
  const OwnedMatrix cache(backend(), 4, 2);
  backend().store({.x = x.all(), .cache = cache.all(), .first = 1});
  EXPECT_EQ(values_of(backend(), cache.all()), (Floats{0, 0, 1, 2, 3, 4, 0, 0}));
}

TEST_P(StoreTest, CopiesPartOfWiderMatrix) {
  const OwnedMatrix x = matrix_of(backend(), 2, 3, Floats{1, 2, 3, 4, 5, 6});
  const OwnedMatrix cache(backend(), 2, 2);
  backend().store({.x = x.all().column_range(1, 2), .cache = cache.all(), .first = 0});
  EXPECT_EQ(values_of(backend(), cache.all()), (Floats{2, 3, 5, 6}));
}

TEST_P(CompactTest, MovesChosenSlotsTogether) {
  Floats rows(6);
  std::iota(rows.begin(), rows.end(), 0.0f);
  const OwnedMatrix cache = matrix_of(backend(), 6, 1, rows);
  const std::vector<std::uint32_t> slots = {2, 3, 5};
  backend().compact({.cache = cache.all(), .first = 2, .slots = slots});
  EXPECT_EQ(values_of(backend(), cache.all().row_range(0, 5)), (Floats{0, 1, 2, 3, 5}));
}

// Two layers, two heads of two dimensions: y = [K_head0 | V_head0 | K_head1 | V_head1].
TEST_P(GatherLayersTest, InterleavesKeysAndValuesByHead) {
  const OwnedMatrix keys0 = matrix_of(backend(), 2, 4, Floats{0, 0, 0, 0, 1, 2, 3, 4});
  const OwnedMatrix values0 = matrix_of(backend(), 2, 4, Floats{0, 0, 0, 0, 5, 6, 7, 8});
  const OwnedMatrix keys1 = matrix_of(backend(), 2, 4, Floats{0, 0, 0, 0, 11, 12, 13, 14});
  const OwnedMatrix values1 = matrix_of(backend(), 2, 4, Floats{0, 0, 0, 0, 15, 16, 17, 18});
  const std::vector<CacheView> keys = {keys0.all(), keys1.all()};
  const std::vector<CacheView> values = {values0.all(), values1.all()};
  const std::vector<std::uint32_t> slots = {1};
  const OwnedMatrix y(backend(), 2, 8);
  backend().gather_layers({.keys = keys,
                           .values = values,
                           .slots = slots,
                           .heads = {.query_heads = 2, .kv_heads = 2, .head_dim = 2},
                           .style = RopeStyle::halves,
                           .y = y.all()});
  EXPECT_EQ(values_of(backend(), y.all()),
            (Floats{1, 2, 5, 6, 3, 4, 7, 8, 11, 12, 15, 16, 13, 14, 17, 18}));
}

TEST_P(GatherLayersTest, ReordersPairedKeysToHalves) {
  const OwnedMatrix keys = matrix_of(backend(), 1, 6, Floats{1, 2, 3, 4, 5, 6});
  const OwnedMatrix values = matrix_of(backend(), 1, 6, Floats{1, 2, 3, 4, 5, 6});
  const std::vector<CacheView> all_keys = {keys.all()};
  const std::vector<CacheView> all_values = {values.all()};
  const std::vector<std::uint32_t> slots = {0};
  const OwnedMatrix y(backend(), 1, 12);
  backend().gather_layers({.keys = all_keys,
                           .values = all_values,
                           .slots = slots,
                           .heads = {.query_heads = 1, .kv_heads = 1, .head_dim = 6},
                           .style = RopeStyle::pairs,
                           .y = y.all()});
  EXPECT_EQ(values_of(backend(), y.all()), (Floats{1, 3, 5, 2, 4, 6, 1, 2, 3, 4, 5, 6}));
}

EDGEDRAFT_FOR_ALL_BACKENDS(StoreTest);
EDGEDRAFT_FOR_ALL_BACKENDS(CompactTest);
EDGEDRAFT_FOR_ALL_BACKENDS(GatherLayersTest);

}  // namespace
}  // namespace edgedraft::testing
