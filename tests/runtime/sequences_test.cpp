#include <algorithm>
#include <vector>

#include "shared/runtime/layer.h"
#include "tests/runtime/op_test.h"

// Operations over several sequences at once, as in a pass.
namespace edgedraft::testing {
namespace {

struct Sequence {
  std::uint32_t first_row;
  std::uint32_t prefix;
  std::vector<AncestorMask> masks;
  std::vector<std::uint32_t> pages;  // pages of the shared memory; empty: its own
  std::uint32_t window = 0;

  std::uint32_t rows() const { return static_cast<std::uint32_t>(masks.size()); }
  // Of each row: the last slot that it sees, counted without the slots that it does not.
  std::vector<std::uint32_t> positions() const {
    std::vector<std::uint32_t> all;
    for (const AncestorMask& mask : masks) {
      std::uint32_t position = prefix - 1;
      for (std::uint32_t j = 0; j < rows(); ++j) position += mask.test(j) ? 1 : 0;
      all.push_back(position);
    }
    return all;
  }
};

class SequencesTest : public OpTest {
 protected:
  static constexpr HeadShape kHeads{.query_heads = 4, .kv_heads = 2, .head_dim = 16};
  static constexpr std::uint32_t kPageSlots = 4;

  // Two with shared memory and adjacent rows, a third in that memory after a gap of rows, and one
  // with its own. Without pages each has its own memory.
  std::vector<Sequence> sequences() {
    std::vector<Sequence> all = {
        {.first_row = 0, .prefix = 9, .masks = causal_masks(1), .pages = {7, 0, 4}},
        {.first_row = 1, .prefix = 3, .masks = random_tree(1, 9), .pages = {2, 5, 1}, .window = 4},
        {.first_row = 12, .prefix = 0, .masks = causal_masks(3), .pages = {6}},
        {.first_row = 15, .prefix = 30, .masks = random_tree(2, 5), .pages = {}, .window = 20}};
    if (!backend().takes_pages()) {
      for (Sequence& s : all) s.pages.clear();
    }
    return all;
  }
};

TEST_P(SequencesTest, BatchMatchesSequentialCalls) {
  constexpr std::uint32_t kRows = 20;
  constexpr std::uint32_t kSlots = 40;
  const std::vector<Sequence> all = sequences();
  const std::uint32_t cols = kHeads.kv_cols();
  const auto run = [&](bool together) {
    const auto numbers = [&](std::uint64_t seed, std::uint32_t rows, std::uint32_t columns) {
      return matrix_of(backend(), rows, columns, random_floats(seed, std::size_t{rows} * columns));
    };
    const OwnedMatrix q = numbers(1, kRows, kHeads.query_cols());
    const OwnedMatrix k = numbers(2, kRows, cols);
    const OwnedMatrix v = numbers(3, kRows, cols);
    const OwnedMatrix y = numbers(4, kRows, kHeads.query_cols());
    const OwnedMatrix shared_keys = numbers(5, 8 * kPageSlots, cols);
    const OwnedMatrix shared_values = numbers(6, 8 * kPageSlots, cols);
    std::vector<OwnedMatrix> own;
    own.reserve(2 * all.size());

    std::vector<StoreOp> stores;
    std::vector<StoreOp> value_stores;
    std::vector<AttentionOp> attentions;
    std::vector<std::vector<std::uint32_t>> positions;
    for (const Sequence& s : all) positions.push_back(s.positions());
    for (const Sequence& s : all) {
      CacheView keys(shared_keys.all(), s.pages, kPageSlots);
      CacheView values(shared_values.all(), s.pages, kPageSlots);
      if (s.pages.empty()) {
        own.push_back(numbers(7, kSlots, cols));
        keys = own.back().all();
        own.push_back(numbers(8, kSlots, cols));
        values = own.back().all();
      }
      const auto rows = [&](const OwnedMatrix& m) {
        return m.all().row_range(s.first_row, s.rows());
      };
      stores.push_back({.x = rows(k), .cache = keys, .first = s.prefix});
      value_stores.push_back({.x = rows(v), .cache = values, .first = s.prefix});
      attentions.push_back({.q = rows(q),
                            .keys = keys,
                            .values = values,
                            .prefix = s.prefix,
                            .masks = s.masks,
                            .heads = kHeads,
                            .y = rows(y),
                            .scale = kHeads.score_scale(),
                            .window = s.window,
                            .positions = positions[attentions.size()]});
    }
    stores.insert(stores.end(), value_stores.begin(), value_stores.end());
    if (together) {
      backend().stores(stores);
      backend().attentions(attentions);
    } else {
      for (const StoreOp& op : stores) backend().store(op);
      for (const AttentionOp& op : attentions) backend().attention(op);
    }
    Floats results;
    const auto keep = [&](const OwnedMatrix& m) {
      const Floats some = values_of(backend(), m.all());
      results.insert(results.end(), some.begin(), some.end());
    };
    for (const OwnedMatrix* m : {&q, &k, &v, &y, &shared_keys, &shared_values}) keep(*m);
    for (const OwnedMatrix& m : own) keep(m);
    return results;
  };
  EXPECT_TRUE(same_bytes(run(true), run(false)));
}

EDGEDRAFT_FOR_ALL_BACKENDS(SequencesTest);

}  // namespace
}  // namespace edgedraft::testing
