#include <algorithm>
#include <initializer_list>
#include <numeric>

#include "shared/runtime/decoder.h"
#include "tests/runtime/op_test.h"
#include "tests/runtime/typed_cache.h"
#include "tests/support/toy_models.h"

// Keys and values of other types than f32 are stored rounded, and readers get the same bits as from
// a float32 cache of the rounded values. Results for float32 caches (operator tests, batch
// invariance) therefore hold for these.
namespace edgedraft::testing {
namespace {

constexpr float kHalfMax = 65504.0f;

// Rounds as StoreOp does.
float rounded(DType type, float x) {
  switch (type) {
    case DType::f16:
      return half_to_float(
          float_to_half(std::isfinite(x) ? std::clamp(x, -kHalfMax, kHalfMax) : x));
    case DType::bf16:
      return bfloat16_to_float(float_to_bfloat16(x));
    default:
      return x;
  }
}
// By the rule for i8 in shared/tensor/element_type.h.
void round_block(std::span<float> block) {
  float largest = 0.0f;
  bool is_finite = true;
  for (const float x : block) {
    is_finite = is_finite && std::isfinite(x);
    largest = std::max(largest, std::abs(x));
  }
  const float scale = largest < 0x1p-100f ? 0.0f : std::min(largest / 127.0f, 0x1.020406p121f);
  for (float& x : block) {
    const float level = scale > 0.0f ? std::nearbyint(x / scale) + 0.0f : 0.0f;
    x = is_finite ? level * scale : NAN;
  }
}
// Rows of `cols` elements.
Floats rounded(DType type, Floats numbers, std::size_t cols) {
  if (type != DType::i8) {
    for (float& x : numbers) x = rounded(type, x);
    return numbers;
  }
  for (std::size_t row = 0; row < numbers.size(); row += cols) {
    for (std::size_t i = 0; i < cols; i += 32) {
      round_block(std::span(numbers).subspan(row + i, std::min<std::size_t>(32, cols - i)));
    }
  }
  return numbers;
}
bool same_number(float a, float b) {
  return same_bytes({&a, 1}, {&b, 1}) || (std::isnan(a) && std::isnan(b));
}

// Pages of `page_slots` that cover `slots`, in random order; empty if page_slots is 0.
std::vector<std::uint32_t> shuffled_pages(std::uint32_t slots, std::uint32_t page_slots) {
  std::vector<std::uint32_t> pages(page_slots > 0 ? (slots + page_slots - 1) / page_slots : 0);
  std::iota(pages.begin(), pages.end(), 0u);
  std::shuffle(pages.begin(), pages.end(), Random(slots + page_slots));
  return pages;
}

class CacheTypeTest : public OpTest {
 protected:
  // Runs a check for each type and page size (0: contiguous) that this backend supports.
  template <class Check>
  void for_each_type(const Check& check,
                     std::initializer_list<std::uint32_t> page_sizes = {0u, 8u}) {
    for (const DType type : kCacheTypes) {
      if (!backend().takes_cache_type(type)) continue;
      for (const std::uint32_t page_slots : page_sizes) {
        if (page_slots > 0 && !backend().takes_pages()) continue;
        SCOPED_TRACE(std::string(traits(type).name) + ", pages of " + std::to_string(page_slots));
        check(type, page_slots);
      }
    }
  }
  // Attention of a random tree gives the bits of contiguous float32 slots with rounded values.
  void expect_exact_attention(const HeadShape& heads, std::uint32_t prefix, std::uint32_t rows,
                              std::initializer_list<std::uint32_t> page_sizes) {
    const std::uint64_t seed = heads.head_dim + prefix + rows;
    const std::uint32_t slots = prefix + rows;
    const Floats keys = random_floats(seed, slots * heads.kv_cols());
    const Floats values = random_floats(seed + 1, slots * heads.kv_cols());
    const OwnedMatrix q = matrix_of(backend(), rows, heads.query_cols(),
                                    random_floats(3, std::size_t{rows} * heads.query_cols()));
    const auto masks = random_tree(seed, rows);
    for_each_type(
        [&](DType type, std::uint32_t page_slots) {
          const OwnedMatrix k =
              matrix_of(backend(), slots, heads.kv_cols(), rounded(type, keys, heads.kv_cols()));
          const OwnedMatrix v =
              matrix_of(backend(), slots, heads.kv_cols(), rounded(type, values, heads.kv_cols()));
          const auto pages = shuffled_pages(slots, page_slots);
          TypedCache stored_keys(backend(), type, slots, heads.kv_cols(), pages, page_slots);
          TypedCache stored_values(backend(), type, slots, heads.kv_cols(), pages, page_slots);
          stored_keys.store(0, keys);
          stored_values.store(0, values);
          EXPECT_TRUE(
              same_bytes(attend(backend(), heads, q.all(), stored_keys.view(), stored_values.view(),
                                prefix, masks),
                         attend(backend(), heads, q.all(), k.all(), v.all(), prefix, masks)))
              << rows << " rows after " << prefix << ", heads of " << heads.head_dim;
        },
        page_sizes);
  }
};

TEST_P(CacheTypeTest, StoreRoundsToNearestAndKeepsFiniteValues) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  Floats numbers = {0.0f,     -0.0f,     1.0f,      -1.0f,      0x1.002p0f,  0x1.006p0f,
                    0x1p-14f, 0x1p-24f,  0x1p-25f,  0x1.8p-25f, -0x1.4p-20f, tiny,
                    65504.0f, 65519.0f,  65520.0f,  -65536.0f,  1e30f,       -1e38f,
                    INFINITY, -INFINITY, 0x1.01p0f, 0x1.03p0f,  1e-40f,      3.0f};
  const Floats more = random_floats(1, 43);  // no row is a whole number of registers
  numbers.insert(numbers.end(), more.begin(), more.end());
  const auto cols = static_cast<std::uint32_t>(numbers.size());
  for_each_type([&](DType type, std::uint32_t page_slots) {
    const auto pages = shuffled_pages(20, page_slots);
    TypedCache cache(backend(), type, 20, cols, pages, page_slots);
    cache.store(7, numbers);
    const Floats stored = cache.read(7, 1);
    const Floats expected = rounded(type, numbers, cols);
    for (std::uint32_t i = 0; i < cols; ++i) {
      EXPECT_TRUE(same_number(stored[i], expected[i]))
          << numbers[i] << " became " << stored[i] << ", expected " << expected[i];
    }
    if (type == DType::f16) {
      EXPECT_EQ(stored[14], kHalfMax);
      EXPECT_EQ(stored[17], -kHalfMax);
      EXPECT_EQ(stored[18], INFINITY);
    }
    for (const std::uint32_t neighbour : {6u, 8u}) {
      EXPECT_EQ(cache.read(neighbour, 1), Floats(cols, 0.0f)) << neighbour;
    }
    numbers[3] = NAN;
    cache.store(7, numbers);
    EXPECT_TRUE(std::isnan(cache.read(7, 1)[3]));
    numbers[3] = -1.0f;
  });
}

// The score of a key beyond float16's range is large, but neither infinite nor NaN.
TEST_P(CacheTypeTest, KeyBeyondFloat16RangeStillWins) {
  const HeadShape heads{.query_heads = 1, .kv_heads = 1, .head_dim = 2};
  for_each_type([&](DType type, std::uint32_t page_slots) {
    const auto pages = shuffled_pages(2, page_slots);
    TypedCache keys(backend(), type, 2, 2, pages, page_slots);
    TypedCache values(backend(), type, 2, 2, pages, page_slots);
    keys.store(0, Floats{100000.0f, 0.0f, 1.0f, 0.0f});
    values.store(0, Floats{3.0f, 4.0f, 5.0f, 6.0f});
    const OwnedMatrix q = matrix_of(backend(), 1, 2, Floats{1.0f, 0.0f});
    EXPECT_EQ(attend(backend(), heads, q.all(), keys.view(), values.view(), 2, {}),
              rounded(type, {3.0f, 4.0f}, 2));
  });
}

TEST_P(CacheTypeTest, AttentionMatchesRoundedValuesBitForBit) {
  const HeadShape shapes[] = {{.query_heads = 6, .kv_heads = 2, .head_dim = 48},
                              {.query_heads = 8, .kv_heads = 1, .head_dim = 64},
                              {.query_heads = 2, .kv_heads = 2, .head_dim = 10},
                              {.query_heads = 4, .kv_heads = 2, .head_dim = 128},
                              {.query_heads = 2, .kv_heads = 1, .head_dim = 256}};
  for (const HeadShape& heads : shapes) {
    for (const std::uint32_t prefix : {0u, 63u, 200u}) {
      for (const std::uint32_t rows : {1u, 13u}) {
        expect_exact_attention(heads, prefix, rows, {0u, 8u});
      }
    }
  }
}

TEST_P(CacheTypeTest, AttentionReadsSmallAndLargePages) {
  const HeadShape heads{.query_heads = 6, .kv_heads = 2, .head_dim = 48};
  const std::pair<std::uint32_t, std::uint32_t> calls[] = {{0, 70}, {31, 1}, {33, 9}, {200, 70}};
  for (const auto& [prefix, rows] : calls) expect_exact_attention(heads, prefix, rows, {2u, 32u});
}

TEST_P(CacheTypeTest, StoreAndCompactMoveOnlyTheirSlots) {
  constexpr std::uint32_t kSlots = 100;
  for (const std::uint32_t cols : kAwkwardCounts) {
    for_each_type(
        [&](DType type, std::uint32_t page_slots) {
          const auto pages = shuffled_pages(kSlots, page_slots);
          TypedCache cache(backend(), type, kSlots, cols, pages, page_slots);
          const Floats numbers = random_floats(cols, kSlots * cols);
          Floats expected = rounded(type, numbers, cols);
          cache.store(0, numbers);
          const Floats more = random_floats(2, 40 * cols);
          const Floats rows = rounded(type, more, cols);
          cache.store(25, more);
          std::ranges::copy(rows, expected.begin() + 25 * cols);
          EXPECT_TRUE(same_bytes(cache.read(0, kSlots), expected)) << cols;

          std::vector<std::uint32_t> slots;
          for (std::uint32_t slot = 11; slot < kSlots; slot += 1 + slot % 3) slots.push_back(slot);
          backend().compact({.cache = cache.view(), .first = 10, .slots = slots});
          for (std::size_t i = 0; i < slots.size(); ++i) {
            std::copy_n(expected.begin() + slots[i] * cols, cols,
                        expected.begin() + static_cast<std::ptrdiff_t>((10 + i) * cols));
          }
          EXPECT_TRUE(same_bytes(cache.read(0, kSlots), expected)) << cols;
        },
        {0u, 1u, 8u, 32u});
  }
}

TEST_P(CacheTypeTest, GatherLayersReadsRoundedValues) {
  constexpr std::uint32_t kSlots = 70;
  constexpr std::uint32_t kLayers = 3;
  const HeadShape heads{.query_heads = 2, .kv_heads = 2, .head_dim = 22};
  const std::vector<std::uint32_t> slots = {0, 7, 8, 9, 15, 16, 17, 40, 69};
  const OwnedMatrix y(backend(), kLayers * 9, 2 * heads.kv_cols());
  const auto check = [&](DType type, std::uint32_t page_slots) {
    const auto pages = shuffled_pages(kSlots, page_slots);
    std::vector<std::unique_ptr<TypedCache>> caches;
    std::vector<OwnedMatrix> floats;
    std::vector<CacheView> stored[2];
    std::vector<CacheView> expected[2];
    for (std::uint64_t i = 0; i < 2 * kLayers; ++i) {
      const Floats numbers = random_floats(i, kSlots * heads.kv_cols());
      caches.push_back(std::make_unique<TypedCache>(backend(), type, kSlots, heads.kv_cols(), pages,
                                                    page_slots));
      caches.back()->store(0, numbers);
      floats.push_back(
          matrix_of(backend(), kSlots, heads.kv_cols(), rounded(type, numbers, heads.kv_cols())));
      stored[i % 2].push_back(caches.back()->view());
      expected[i % 2].push_back(floats.back().all());
    }
    for (const RopeStyle style : {RopeStyle::halves, RopeStyle::pairs}) {
      const auto gather = [&](const std::vector<CacheView>* keys_and_values) {
        backend().gather_layers({.keys = keys_and_values[0],
                                 .values = keys_and_values[1],
                                 .slots = slots,
                                 .heads = heads,
                                 .style = style,
                                 .y = y.all()});
        return values_of(backend(), y.all());
      };
      const Floats wanted = gather(expected);
      EXPECT_TRUE(same_bytes(gather(stored), wanted));
    }
  };
  for_each_type(check, {0u, 8u, 16u});
}

// Lossless drafting relies on this. Rows of a pass read each other's keys and values as stored, so
// that tokens together have the bits of tokens alone.
TEST_P(CacheTypeTest, DecoderGivesSameBitsForTokensTogetherAndAlone) {
  const ToyDecoder toy(3);
  constexpr std::uint32_t kCount = 20;
  Decoder decoder(backend(), toy.config, toy.tensors, 64);
  std::vector<std::uint32_t> tokens(kCount);
  for (std::uint32_t i = 0; i < kCount; ++i) tokens[i] = (7 * i + 3) % kToyVocabulary;
  Floats logits_of_f32;
  for (const DType type : kCacheTypes) {
    if (!backend().takes_cache_type(type)) continue;
    KvCache one_by_one = decoder.make_cache(type);
    Floats alone;
    for (const std::uint32_t token : tokens) {
      decoder.append(one_by_one, {&token, 1});
      const Floats row = values_of(backend(), decoder.logits(0, 1));
      alone.insert(alone.end(), row.begin(), row.end());
    }
    KvCache at_once = decoder.make_cache(type);
    decoder.append(at_once, tokens);
    EXPECT_TRUE(same_bytes(values_of(backend(), decoder.logits(0, kCount)), alone))
        << traits(type).name;
    if (type == DType::f32) logits_of_f32 = alone;
    // Guards against a test that covers only f32.
    EXPECT_EQ(type == DType::f32, alone == logits_of_f32) << traits(type).name;
  }
}

EDGEDRAFT_FOR_ALL_BACKENDS(CacheTypeTest);

TEST(CacheSizeTest, SixteenBitTypesHalveMemory) {
  const KvPool::Size f32{.kv_cols = {10, 10, 10}, .page_count = 7};
  KvPool::Size f16 = f32;
  f16.type = DType::f16;
  EXPECT_EQ(f32.page_bytes(), 2u * 4 * 3 * 10 * KvPool::kPageSlots);
  EXPECT_EQ(f16.bytes(), f32.bytes() / 2);
  EXPECT_EQ(cache_bytes(DType::bf16, 5), 10u);
}

TEST(CacheSizeTest, Int8TakesNineEighthsOfAByteAndStatesTakeFour) {
  const KvPool::Size size{.kv_cols = {64, 96},
                          .page_count = 7,
                          .type = DType::i8,
                          .planes = {.states = {1}, .cols = 10}};
  EXPECT_EQ(size.page_bytes(), KvPool::kPageSlots * (2u * (64 + 96) * 9 / 8 + 4 * 10));
  const KvPool::Size short_block{.kv_cols = {5}, .page_count = 1, .type = DType::i8};
  EXPECT_EQ(short_block.page_bytes(), KvPool::kPageSlots * 2u * 36);
}

TEST(CacheSizeTest, LayersOfPoolDoNotOverlap) {
  const auto backend = make_reference_backend();
  for (const DType type : kCacheTypes) {
    KvPool pool(*backend, {.kv_cols = {3, 5}, .page_count = 3, .page_slots = 4, .type = type});
    float number = 0.0f;
    for (std::uint32_t layer = 0; layer < 2; ++layer) {
      for (const CacheRows& rows : {pool.keys(layer), pool.values(layer)}) {
        const Floats numbers(std::size_t{12} * rows.cols, number += 1.0f);
        const OwnedMatrix x = matrix_of(*backend, 12, rows.cols, numbers);
        backend->store({.x = x.all(), .cache = rows, .first = 0});
      }
    }
    number = 0.0f;
    for (std::uint32_t layer = 0; layer < 2; ++layer) {
      for (const CacheRows& rows : {pool.keys(layer), pool.values(layer)}) {
        Floats read(std::size_t{12} * rows.cols);
        backend->read_cache(rows, read);
        const Floats numbers(read.size(), number += 1.0f);
        EXPECT_EQ(read, rounded(type, numbers, rows.cols)) << traits(type).name;
      }
    }
  }
}

}  // namespace
}  // namespace edgedraft::testing
