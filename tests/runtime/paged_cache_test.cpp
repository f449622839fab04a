#include <algorithm>
#include <numeric>

#include "shared/runtime/decoder.h"
#include "tests/runtime/op_test.h"
#include "tests/support/toy_models.h"

// Operations over page tables give the same bits as over contiguous slots.
namespace edgedraft::testing {
namespace {

constexpr HeadShape kHeads{.query_heads = 6, .kv_heads = 2, .head_dim = 48};

// Pages 0..count-1 in an order with few neighbours in common.
std::vector<std::uint32_t> shuffled_pages(std::uint64_t seed, std::uint32_t count) {
  std::vector<std::uint32_t> pages(count);
  std::iota(pages.begin(), pages.end(), 0u);
  Random random(seed);
  for (std::uint32_t i = count; i-- > 1;) std::swap(pages[i], pages[random.below(i + 1)]);
  return pages;
}

class PagedCacheTest : public OpTest {
 protected:
  void SetUp() override {
    OpTest::SetUp();
    if (!IsSkipped() && !backend().takes_pages()) {
      GTEST_SKIP() << GetParam().name << ": serves one sequence, without pages";
    }
  }
};

// Keys or values in pages, surrounded by rows of others.
struct Paged {
  Paged(Backend& b, std::uint32_t slots, std::uint32_t cols, std::span<const std::uint32_t> table,
        std::uint32_t page_slots)
      : backend(b),
        memory(b, static_cast<std::uint32_t>(table.size()) * page_slots, cols),
        view(memory.all(), table, page_slots) {
    b.write(memory.all(), Floats(std::size_t{memory.all().rows} * cols, 1e9f));
    EXPECT_LE(slots, view.slots());
  }

  void write(std::span<const float> rows) {
    const std::size_t cols = view.cols();
    for (std::uint32_t slot = 0; slot < rows.size() / cols; ++slot) {
      backend.write(view.run(slot, 1).floats(), rows.subspan(slot * cols, cols));
    }
  }
  Floats read(std::uint32_t first, std::uint32_t count) const {
    Floats values;
    while (count > 0) {
      const Matrix run = view.run(first, count).floats();
      const Floats some = values_of(backend, run);
      values.insert(values.end(), some.begin(), some.end());
      first += run.rows;
      count -= run.rows;
    }
    return values;
  }

  Backend& backend;
  OwnedMatrix memory;
  CacheView view;
};

std::uint32_t pages_for(std::uint32_t slots, std::uint32_t page_slots) {
  return (slots + page_slots - 1) / page_slots + 2;
}

TEST_P(PagedCacheTest, AttentionMatchesContiguousSlotsBitForBit) {
  std::uint64_t seed = 1;
  for (const std::uint32_t page_slots : {2u, 32u}) {
    for (const std::uint32_t prefix : {0u, 31u, 33u, 200u}) {
      for (const std::uint32_t rows : {1u, 9u, 70u}) {
        const std::uint32_t slots = prefix + rows;
        const auto table = shuffled_pages(++seed, pages_for(slots, page_slots));
        const Floats keys = random_floats(seed, slots * kHeads.kv_cols());
        const Floats values = random_floats(seed + 1, slots * kHeads.kv_cols());
        const OwnedMatrix q = matrix_of(backend(), rows, kHeads.query_cols(),
                                        random_floats(3, std::size_t{rows} * kHeads.query_cols()));
        const OwnedMatrix y(backend(), rows, kHeads.query_cols());
        const auto masks = random_tree(seed, rows);
        const auto attend = [&](const CacheView& k, const CacheView& v) {
          backend().attention({.q = q.all(),
                               .keys = k,
                               .values = v,
                               .prefix = prefix,
                               .masks = masks,
                               .heads = kHeads,
                               .y = y.all()});
          return values_of(backend(), y.all());
        };
        const OwnedMatrix keys_in_a_row = matrix_of(backend(), slots, kHeads.kv_cols(), keys);
        const OwnedMatrix values_in_a_row = matrix_of(backend(), slots, kHeads.kv_cols(), values);
        const Floats expected = attend(keys_in_a_row.all(), values_in_a_row.all());
        Paged paged_keys(backend(), slots, kHeads.kv_cols(), table, page_slots);
        Paged paged_values(backend(), slots, kHeads.kv_cols(), table, page_slots);
        paged_keys.write(keys);
        paged_values.write(values);
        ASSERT_TRUE(same_bytes(attend(paged_keys.view, paged_values.view), expected))
            << rows << " rows after " << prefix << ", pages of " << page_slots;
      }
    }
  }
}

TEST_P(PagedCacheTest, StoreAndCompactMoveOnlyTheirSlots) {
  constexpr std::uint32_t kCols = 33;
  constexpr std::uint32_t kSlots = 100;
  for (const std::uint32_t page_slots : {1u, 8u, 32u}) {
    const auto table = shuffled_pages(page_slots, pages_for(kSlots, page_slots));
    Paged paged(backend(), kSlots, kCols, table, page_slots);
    Floats expected = random_floats(page_slots, kSlots * kCols);
    paged.write(expected);
    const Floats rows = random_floats(2, 40 * kCols);
    const OwnedMatrix x = matrix_of(backend(), 40, kCols, rows);
    backend().store({.x = x.all(), .cache = paged.view, .first = 25});
    std::copy(rows.begin(), rows.end(), expected.begin() + 25 * kCols);
    ASSERT_TRUE(same_bytes(paged.read(0, kSlots), expected)) << page_slots;

    std::vector<std::uint32_t> slots;
    for (std::uint32_t slot = 11; slot < kSlots; slot += 1 + slot % 3) slots.push_back(slot);
    backend().compact({.cache = paged.view, .first = 10, .slots = slots});
    for (std::size_t i = 0; i < slots.size(); ++i) {
      std::copy_n(expected.begin() + slots[i] * kCols, kCols,
                  expected.begin() + static_cast<std::ptrdiff_t>((10 + i) * kCols));
    }
    ASSERT_TRUE(same_bytes(paged.read(0, kSlots), expected)) << page_slots;
  }
}

TEST_P(PagedCacheTest, GatherLayersReadsEveryLayerThroughPageTable) {
  constexpr std::uint32_t kSlots = 70;
  constexpr std::uint32_t kPageSlots = 16;
  const auto table = shuffled_pages(5, pages_for(kSlots, kPageSlots));
  std::vector<OwnedMatrix> in_a_row;
  std::vector<Paged> paged;
  for (std::uint64_t i = 0; i < 6; ++i) {
    const Floats rows = random_floats(i, kSlots * kHeads.kv_cols());
    in_a_row.push_back(matrix_of(backend(), kSlots, kHeads.kv_cols(), rows));
    paged.emplace_back(backend(), kSlots, kHeads.kv_cols(), table, kPageSlots).write(rows);
  }
  const std::vector<std::uint32_t> slots = {0, 15, 16, 17, 40, 69};
  const OwnedMatrix y(backend(), 3 * 6, 2 * kHeads.kv_cols());
  for (const RopeStyle style : {RopeStyle::halves, RopeStyle::pairs}) {
    const auto gather = [&](const auto& layers, const auto& view_of) {
      std::vector<CacheView> keys;
      std::vector<CacheView> values;
      for (std::size_t layer = 0; layer < 3; ++layer) {
        keys.push_back(view_of(layers[2 * layer]));
        values.push_back(view_of(layers[2 * layer + 1]));
      }
      backend().gather_layers({.keys = keys,
                               .values = values,
                               .slots = slots,
                               .heads = kHeads,
                               .style = style,
                               .y = y.all()});
      return values_of(backend(), y.all());
    };
    const Floats expected = gather(in_a_row, [](const OwnedMatrix& m) { return m.all(); });
    EXPECT_TRUE(same_bytes(gather(paged, [](const Paged& p) { return p.view; }), expected));
  }
}

// Two sequences grow in turns, so their pages interleave; one drafts trees and keeps paths.
TEST_P(PagedCacheTest, DecoderMatchesSeparateCacheBitForBit) {
  const ToyDecoder toy(3);
  Decoder decoder(backend(), toy.config, toy.tensors, 200);
  KvPool pool(backend(), decoder.pool_size(40, DType::f32, 8));
  KvCache own[] = {decoder.make_cache(), decoder.make_cache()};
  KvCache pooled[] = {decoder.make_cache(pool), decoder.make_cache(pool)};
  Random random(7);
  for (int step = 0; step < 12; ++step) {
    const std::size_t i = random.below(2);
    const auto rows = static_cast<std::uint32_t>(1 + random.below(20));
    std::vector<std::uint32_t> tokens(rows);
    for (auto& t : tokens) t = static_cast<std::uint32_t>(random.below(kToyVocabulary));
    const auto masks = random_tree(random(), rows);
    std::vector<std::uint32_t> positions;
    std::vector<std::uint32_t> path;
    for (std::uint32_t r = 0; r < rows; ++r) {
      std::uint32_t depth = 0;
      for (std::uint32_t j = 0; j < r; ++j) depth += masks[r].test(j) ? 1 : 0;
      positions.push_back(own[i].length() + depth);
      if (masks[rows - 1].test(r)) path.push_back(own[i].length() + r);
    }
    const auto run = [&](KvCache& cache) {
      decoder.forward(cache, tokens,
                      {.positions = positions,
                       .prefix = cache.length(),
                       .first_slot = cache.length(),
                       .masks = masks});
      Floats logits = values_of(backend(), decoder.logits(0, rows));
      cache.keep(path);
      return logits;
    };
    ASSERT_TRUE(pooled[i].reserve(pooled[i].length() + rows));
    const Floats expected = run(own[i]);
    ASSERT_TRUE(same_bytes(run(pooled[i]), expected)) << "step " << step;
    pooled[i].trim();
  }
}

EDGEDRAFT_FOR_ALL_BACKENDS(PagedCacheTest);

TEST(CacheViewTest, RunEndsAtPageGap) {
  const auto backend = make_reference_backend();
  const OwnedMatrix memory(*backend, 20, 3);
  const std::vector<std::uint32_t> pages = {3, 0, 1, 2};
  const CacheView view(memory.all(), pages, 4);
  EXPECT_EQ(view.slots(), 16u);
  const auto run = [&](std::uint32_t first, std::uint32_t count) {
    const CacheRows m = view.run(first, count);
    return std::pair(m.offset / 3, m.rows);
  };
  EXPECT_EQ(run(1, 15), std::pair(std::uint64_t{13}, 3u));
  EXPECT_EQ(run(4, 12), std::pair(std::uint64_t{0}, 12u));
  EXPECT_EQ(run(6, 3), std::pair(std::uint64_t{2}, 3u));
}

// --- the pool ---

class KvPoolTest : public ::testing::Test {
 protected:
  static constexpr std::uint32_t kPageSlots = 4;
  static constexpr std::uint32_t kPages = 8;

  std::unique_ptr<Backend> backend_ = make_reference_backend();
  KvPool pool_{*backend_,
               {.layers = 2, .kv_cols = 3, .page_count = kPages, .page_slots = kPageSlots}};
};

TEST_F(KvPoolTest, CachesTakeAndReturnPages) {
  {
    KvCache cache(pool_, 100);
    EXPECT_EQ(pool_.used_count(), 0u);
    ASSERT_TRUE(cache.reserve(5));
    EXPECT_EQ(pool_.used_count(), 2u);
    EXPECT_EQ(cache.slots(), 8u);
    ASSERT_TRUE(cache.reserve(8));
    EXPECT_EQ(pool_.used_count(), 2u);
    cache.set_length(8);
    ASSERT_TRUE(cache.reserve(20));
    EXPECT_EQ(pool_.used_count(), 5u);
    cache.trim();
    EXPECT_EQ(pool_.used_count(), 2u);
    cache.set_length(3);
    EXPECT_EQ(pool_.used_count(), 1u);
    EXPECT_EQ(cache.length(), 3u);
    KvCache moved = std::move(cache);
    EXPECT_EQ(pool_.used_count(), 1u);
    EXPECT_EQ(moved.keys()[1].pages.data(), moved.pages().data());
  }
  EXPECT_EQ(pool_.used_count(), 0u);
}

TEST_F(KvPoolTest, OversizedReservationTakesNoPages) {
  KvCache first(pool_, 100);
  KvCache second(pool_, 100);
  ASSERT_TRUE(first.reserve(6 * kPageSlots));
  EXPECT_FALSE(second.reserve(3 * kPageSlots));
  EXPECT_EQ(second.slots(), 0u);
  ASSERT_TRUE(second.reserve(2 * kPageSlots));
  EXPECT_FALSE(first.reserve(7 * kPageSlots));
  EXPECT_EQ(first.slots(), 6 * kPageSlots);
}

TEST_F(KvPoolTest, SharedPagesOutliveFirstOwnerAndStayWhole) {
  KvCache second(pool_, 100);
  std::vector<std::uint32_t> shared;
  {
    KvCache first(pool_, 100);
    ASSERT_TRUE(first.reserve(10));
    first.set_length(10);
    shared.assign(first.pages().begin(), first.pages().begin() + 2);
    second.adopt(shared);
    EXPECT_EQ(second.length(), 8u);
    EXPECT_EQ(pool_.used_count(), 3u);
    // Slots 6 and 7 are shared, so the whole page is dropped.
    first.set_length(6);
    EXPECT_EQ(first.length(), 4u);
    EXPECT_EQ(pool_.used_count(), 2u);
  }
  EXPECT_EQ(pool_.used_count(), 2u);
  // Now they belong to it alone.
  second.set_length(6);
  EXPECT_EQ(second.length(), 6u);
  EXPECT_EQ(second.pages()[1], shared[1]);
}

TEST_F(KvPoolTest, LayersDoNotOverlap) {
  Floats number{0.0f};
  for (std::uint32_t layer = 0; layer < 2; ++layer) {
    for (const CacheRows& rows : {pool_.keys(layer), pool_.values(layer)}) {
      const Matrix m = rows.floats();
      ASSERT_EQ(m.rows, kPages * kPageSlots);
      for (std::uint32_t r = 0; r < m.rows; ++r) {
        number[0] += 1.0f;
        backend_->write(m.row_range(r, 1), Floats(3, number[0]));
      }
    }
  }
  float expected = 0.0f;
  for (std::uint32_t layer = 0; layer < 2; ++layer) {
    for (const CacheRows& rows : {pool_.keys(layer), pool_.values(layer)}) {
      for (const float x : values_of(*backend_, rows.floats().column_range(0, 1))) {
        EXPECT_EQ(x, expected += 1.0f);
      }
    }
  }
}

}  // namespace
}  // namespace edgedraft::testing
