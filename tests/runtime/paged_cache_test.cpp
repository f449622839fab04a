#include <algorithm>
#include <cmath>
#include <numeric>

#include "shared/runtime/decoder.h"
#include "tests/runtime/op_test.h"
#include "tests/support/toy_models.h"

// Operations over page tables give the same bits as over contiguous slots.
namespace edgedraft::testing {
namespace {

class PagedCacheTest : public OpTest {
 protected:
  void SetUp() override {
    OpTest::SetUp();
    if (!IsSkipped() && !backend().takes_pages()) {
      GTEST_SKIP() << GetParam().name << ": serves one sequence, without pages";
    }
  }
};

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

// A cache may return the pages before a window: their table entries then name any page.
TEST_P(PagedCacheTest, PagesBeforeWindowHaveNoEffect) {
  constexpr HeadShape kHeads{.query_heads = 4, .kv_heads = 2, .head_dim = 32};
  constexpr std::uint32_t kPageSlots = 16;
  constexpr std::uint32_t kPages = 20;  // the last holds NaN
  constexpr std::uint32_t kPrefix = 290;
  constexpr std::uint32_t kRows = 5;
  const std::size_t page = std::size_t{kPageSlots} * kHeads.kv_cols();
  Floats numbers = random_floats(1, kPages * page);
  std::fill(numbers.end() - static_cast<std::ptrdiff_t>(page), numbers.end(), NAN);
  const OwnedMatrix memory = matrix_of(backend(), kPages * kPageSlots, kHeads.kv_cols(), numbers);
  const OwnedMatrix q = matrix_of(backend(), kRows, kHeads.query_cols(),
                                  random_floats(2, kRows * kHeads.query_cols()));
  std::vector<std::uint32_t> pages(kPages - 1);
  std::iota(pages.rbegin(), pages.rend(), 0u);
  std::vector<std::uint32_t> positions(kRows);
  std::iota(positions.begin(), positions.end(), kPrefix);
  const auto attended = [&](std::uint32_t window) {
    const OwnedMatrix y(backend(), kRows, kHeads.query_cols());
    const CacheView cache(memory.all(), pages, kPageSlots);
    backend().attention({.q = q.all(),
                         .keys = cache,
                         .values = cache,
                         .prefix = kPrefix,
                         .masks = causal_masks(kRows),
                         .heads = kHeads,
                         .y = y.all(),
                         .scale = kHeads.score_scale(),
                         .window = window,
                         .positions = positions});
    return values_of(backend(), y.all());
  };
  for (const std::uint32_t window : {150u, 70u, 20u}) {
    const Floats whole = attended(window);
    const std::uint32_t unseen = (kPrefix + 1 - window) / kPageSlots;
    std::fill_n(pages.begin(), unseen, kPages - 1);
    EXPECT_TRUE(same_bytes(attended(window), whole)) << "window " << window;
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
  KvPool pool_{*backend_, {.kv_cols = {3, 3}, .page_count = kPages, .page_slots = kPageSlots}};
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

}  // namespace
}  // namespace edgedraft::testing
