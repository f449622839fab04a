#include <cuda_runtime.h>

#include <algorithm>
#include <cstring>
#include <numeric>
#include <type_traits>
#include <utility>

#include "kernels/cuda/attention.h"
#include "server/cuda/cuda_backend.h"
#include "shared/runtime/layer.h"
#include "tests/runtime/op_test.h"

// Attention on matrix instructions, beyond the operator tests of all backends. Tiles of 16 queries
// begin and end anywhere, parts of a launch have three sizes, and older processors have other
// kernels.
namespace edgedraft::testing {
using namespace server;
namespace {

// Keys or values of `count` slots.
class Cache {
 public:
  Cache(Backend& backend, DType type, std::uint32_t cols, const Floats& numbers)
      : slots_(static_cast<std::uint32_t>(numbers.size() / cols)),
        memory_(backend.allocate((slots_ * cache_bytes(type, cols) + 3) / 4)),
        rows_(memory_.get(), 0, slots_, cols, type) {
    const OwnedMatrix x = matrix_of(backend, slots_, cols, numbers);
    backend.store({.x = x.all(), .cache = rows_, .first = 0});
  }
  operator CacheView() const { return rows_; }

 private:
  std::uint32_t slots_;
  std::unique_ptr<Buffer> memory_;
  CacheRows rows_;
};

// Each width up to 70 with one of the shapes. Rows of a chain are compared with plain decoding.
// They are always the last rows, so a row's place in its tile varies.
TEST(AttentionTilesTest, RowsAreBitExactAtEveryWidth) {
  constexpr std::uint32_t kRows = 70;
  constexpr std::uint32_t kPrefix = 45;
  const auto backend = make_cuda_backend({});
  std::uint32_t shape = 0;
  for (const std::uint32_t group : {1u, 2u, 4u, 7u, 8u}) {
    for (const std::uint32_t head_dim : {64u, 96u, 128u}) {
      const HeadShape heads{.query_heads = group, .kv_heads = 1, .head_dim = head_dim};
      const DType type = kCacheTypes[shape % 4];
      const std::size_t cols = heads.query_cols();
      const OwnedMatrix q =
          matrix_of(*backend, kRows, heads.query_cols(), random_floats(shape, kRows * cols));
      const std::size_t count = (kPrefix + kRows) * std::size_t{heads.kv_cols()};
      const Cache keys(*backend, type, heads.kv_cols(), random_floats(shape + 1, count));
      const Cache values(*backend, type, heads.kv_cols(), random_floats(shape + 2, count));
      Floats alone;
      for (std::uint32_t r = 0; r < kRows; ++r) {
        const Floats row =
            attend(*backend, heads, q.all().row_range(r, 1), keys, values, kPrefix + r + 1, {});
        alone.insert(alone.end(), row.begin(), row.end());
      }
      ++shape;
      for (std::uint32_t width = shape; width <= kRows; width += 15) {
        const std::uint32_t first = kRows - width;
        const Floats together = attend(*backend, heads, q.all().row_range(first, width), keys,
                                       values, kPrefix + first, causal_masks(width));
        EXPECT_TRUE(same_bytes(together, std::span(alone).subspan(first * cols)))
            << traits(type).name << ", " << width << " rows, groups of " << group << ", heads of "
            << head_dim;
      }
    }
  }
  EXPECT_EQ(shape, 15u);
}

// Matrix instructions multiply everything in a tile, and zero times NaN is NaN. A tile must
// therefore hold nothing that a row does not see.
TEST(AttentionTilesTest, MaskedNansDoNotReachRow) {
  constexpr std::uint32_t kRows = 9;
  constexpr std::uint32_t kPrefix = 37;
  const HeadShape heads{.query_heads = 4, .kv_heads = 1, .head_dim = 64};
  const auto backend = make_cuda_backend({});
  const auto masks = random_tree(3, kRows);
  const std::size_t cols = heads.query_cols();
  const OwnedMatrix q =
      matrix_of(*backend, kRows, heads.query_cols(), random_floats(1, kRows * cols));
  const Floats keys = random_floats(2, (kPrefix + kRows) * heads.head_dim);
  const Floats values = random_floats(3, keys.size());
  for (const DType type : kCacheTypes) {
    const auto attended = [&](const Floats& k, const Floats& v) {
      return attend(*backend, heads, q.all(), Cache(*backend, type, heads.head_dim, k),
                    Cache(*backend, type, heads.head_dim, v), kPrefix, masks);
    };
    const Floats expected = attended(keys, values);
    for (std::uint32_t poisoned = 0; poisoned < kRows; ++poisoned) {
      const auto poison = [&](Floats numbers) {
        std::fill_n(numbers.begin() + (kPrefix + poisoned) * heads.head_dim, heads.head_dim, NAN);
        return numbers;
      };
      const Floats y = attended(poison(keys), poison(values));
      for (std::uint32_t r = 0; r < kRows; ++r) {
        const auto row = std::span(y).subspan(r * cols, cols);
        if (masks[r].test(poisoned)) {
          EXPECT_TRUE(std::isnan(row[0])) << r;
        } else {
          EXPECT_TRUE(same_bytes(row, std::span(expected).subspan(r * cols, cols)))
              << traits(type).name << ", row " << r << " beside " << poisoned;
        }
      }
    }
  }
}

// Calls the kernels directly: one row per sequence, all with one cache.
class OneRowEach {
 public:
  static constexpr cuda::Heads kHeads{.kv_heads = 64, .group = 1, .head_dim = 8};
  static constexpr std::uint32_t kCols = 64 * 8;

  // `begins`: first ranks of the rows' windows; empty: no windows.
  explicit OneRowEach(std::vector<std::uint32_t> prefixes, std::vector<std::uint32_t> begins = {})
      : prefixes_(std::move(prefixes)),
        begins_(std::move(begins)),
        q_(random_floats(1, prefixes_.size() * kCols)),
        numbers_(random_floats(2, prefixes_.back() * std::size_t{kCols})) {}

  // The result for rows first .. first + count. Sets `block_splits` to the plan's choice.
  Floats attended(std::size_t first, std::size_t count, std::size_t block_bytes,
                  std::uint32_t& block_splits) {
    std::vector<cuda::AttentionPart> parts;
    for (std::size_t i = first; i < first + count; ++i) {
      parts.push_back({.rows = 1,
                       .prefix = prefixes_[i],
                       .tail_slots = 0,
                       .masks = nullptr,
                       .pages = nullptr,
                       .page_count = 0,
                       .begins = begins_.empty() ? nullptr : &begins_[i]});
    }
    cuda::AttentionPlan plan{};
    std::vector<std::uint32_t> table(cuda::attention_table_words(parts.data(), count));
    EXPECT_EQ(cuda::plan_attention(parts.data(), count, kHeads, {block_bytes, true, 1u << 28}, plan,
                                   table.data()),
              cudaSuccess);
    block_splits = plan.block_splits;
    const auto aligned = [](Floats& memory) {
      return reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(memory.data()) + 15) / 16 *
                                      16);
    };
    Floats scratch(cuda::attention_scratch_floats(plan, kHeads) + 4, NAN);
    Floats words(table.size() + 4);
    float* const on_device = aligned(words);
    std::memcpy(on_device, table.data(), table.size() * sizeof(float));
    Floats y(count * kCols);
    const cuda::Cache cache{.data = reinterpret_cast<std::byte*>(numbers_.data()),
                            .type = DType::f32,
                            .stride = kCols,
                            .pages = nullptr,
                            .page_slots = 0};
    EXPECT_EQ(cuda::attention({.q = {q_.data() + first * kCols, kCols},
                               .keys = cache,
                               .values = cache,
                               .table = reinterpret_cast<const std::uint32_t*>(on_device),
                               .plan = plan,
                               .heads = kHeads,
                               .y = {y.data(), kCols},
                               .scratch = aligned(scratch),
                               .scratch_floats = scratch.size() - 4,
                               .scale = 0.125f,
                               .sinks = nullptr},
                              nullptr),
              cudaSuccess);
    return y;
  }

 private:
  std::vector<std::uint32_t> prefixes_;
  std::vector<std::uint32_t> begins_;
  Floats q_;
  Floats numbers_;
};

TEST(AttentionTilesTest, PartSizesGiveSameBits) {
  std::vector<std::uint32_t> prefixes;
  for (std::uint32_t i = 0; i < 14; ++i) prefixes.push_back(20 + i);
  prefixes.push_back(430);
  prefixes.push_back(700);
  OneRowEach rows(prefixes);
  std::uint32_t splits = 0;
  const Floats sections = rows.attended(0, 16, cuda_host::kBlockMemoryBytesMax, splits);
  EXPECT_EQ(splits, cuda::kSectionSplits);
  // Blocks without memory for a section's sums.
  const Floats chunks = rows.attended(0, 16, std::size_t{16} << 10, splits);
  EXPECT_EQ(splits, cuda::kChunkSplits);
  EXPECT_TRUE(same_bytes(chunks, sections));
  for (const std::size_t row : {0u, 13u, 14u, 15u}) {
    const Floats alone = rows.attended(row, 1, cuda_host::kBlockMemoryBytesMax, splits);
    EXPECT_EQ(splits, row < 15 ? 1 : cuda::kChunkSplits);
    EXPECT_TRUE(
        same_bytes(alone, std::span(sections).subspan(row * OneRowEach::kCols, OneRowEach::kCols)))
        << "row " << row;
  }
}

// Windows that begin in the first or a later part, at its first rank or inside a split.
TEST(AttentionTilesTest, PartSizesOfWindowsGiveSameBits) {
  std::vector<std::uint32_t> prefixes;
  std::vector<std::uint32_t> begins;
  for (std::uint32_t i = 0; i < 12; ++i) {
    prefixes.push_back(60 + i);
    begins.push_back(3 * i);
  }
  const std::pair<std::uint32_t, std::uint32_t> longer[] = {
      {430, 128}, {700, 333}, {900, 512}, {1300, 700}};
  for (const auto& [prefix, begin] : longer) {
    prefixes.push_back(prefix);
    begins.push_back(begin);
  }
  OneRowEach rows(prefixes, begins);
  std::uint32_t splits = 0;
  const Floats sections = rows.attended(0, 16, cuda_host::kBlockMemoryBytesMax, splits);
  EXPECT_EQ(splits, cuda::kSectionSplits);
  const Floats chunks = rows.attended(0, 16, std::size_t{16} << 10, splits);
  EXPECT_EQ(splits, cuda::kChunkSplits);
  EXPECT_TRUE(same_bytes(chunks, sections));
  for (const std::size_t row : {0u, 11u, 12u, 13u, 14u, 15u}) {
    const Floats alone = rows.attended(row, 1, cuda_host::kBlockMemoryBytesMax, splits);
    EXPECT_TRUE(
        same_bytes(alone, std::span(sections).subspan(row * OneRowEach::kCols, OneRowEach::kCols)))
        << "row " << row;
  }
}

// Rows of a tile whose windows begin at different slots of a section.
TEST(AttentionTilesTest, WindowedRowsOfSectionsMatchSingleRows) {
  constexpr HeadShape kHeads{.query_heads = 64, .kv_heads = 64, .head_dim = 8};
  constexpr std::uint32_t kRows = 96;
  constexpr std::uint32_t kPrefix = 1100;
  constexpr std::uint32_t kWindow = 600;
  const auto backend = make_cuda_backend({});
  const auto cache = [&](std::uint64_t seed) {
    return matrix_of(*backend, kPrefix + kRows, kHeads.kv_cols(),
                     random_floats(seed, (kPrefix + kRows) * std::size_t{kHeads.kv_cols()}));
  };
  const OwnedMatrix keys = cache(1);
  const OwnedMatrix values = cache(2);
  const OwnedMatrix q = matrix_of(*backend, kRows, kHeads.query_cols(),
                                  random_floats(3, std::size_t{kRows} * kHeads.query_cols()));
  std::vector<std::uint32_t> positions(kRows);
  std::iota(positions.begin(), positions.end(), kPrefix);
  const OwnedMatrix y(*backend, kRows, kHeads.query_cols());
  const auto attended = [&](std::uint32_t first, std::uint32_t count) {
    const Matrix to = y.rows(count);
    backend->attention({.q = q.all().row_range(first, count),
                        .keys = keys.all(),
                        .values = values.all(),
                        .prefix = kPrefix + first,
                        .masks = causal_masks(count),
                        .heads = kHeads,
                        .y = to,
                        .scale = 1.0f,
                        .window = kWindow,
                        .positions = std::span(positions).subspan(first, count)});
    return values_of(*backend, to);
  };
  const Floats together = attended(0, kRows);
  for (const std::uint32_t row : {0u, 15u, 16u, 36u, kRows - 1}) {
    EXPECT_TRUE(same_bytes(
        attended(row, 1),
        std::span(together).subspan(row * std::size_t{kHeads.query_cols()}, kHeads.query_cols())))
        << "row " << row;
  }
}

// Layers of a pass share a plan; any other input gets its own.
TEST(AttentionPlanTest, DependsOnEveryInput) {
  constexpr cuda::Heads kHeads{.kv_heads = 2, .group = 4, .head_dim = 64};
  std::vector<std::uint64_t> masks(4 * cuda::kMaskWords);
  for (std::size_t row = 0; row < 4; ++row) masks[row * cuda::kMaskWords] = row % 2 == 0 ? 1 : 3;
  std::vector<std::uint32_t> pages{5, 6, 7, 8};
  std::vector<cuda::AttentionPart> parts;
  for (const std::uint32_t i : {0u, 1u, 2u}) {
    parts.push_back({.rows = i == 2 ? 2u : 1u,
                     .prefix = 20 + i,
                     .tail_slots = 2,
                     .masks = masks.data() + i * cuda::kMaskWords,
                     .pages = pages.data() + i,
                     .page_count = 1});
  }
  cuda::AttentionPlan plan{};
  std::vector<std::uint32_t> table(cuda::attention_table_words(parts.data(), parts.size()));
  ASSERT_EQ(cuda::plan_attention(parts.data(), parts.size(), kHeads, {1u << 17, true, 1u << 20},
                                 plan, table.data()),
            cudaSuccess);
  const auto is_planned = [&](std::size_t count) {
    return cuda::attention_is_planned(parts.data(), count, plan, table.data());
  };
  EXPECT_TRUE(is_planned(3));
  EXPECT_FALSE(is_planned(2));
  const auto changes = [&](auto& what, auto to) {
    const auto before = std::exchange(what, static_cast<std::decay_t<decltype(what)>>(to));
    EXPECT_FALSE(is_planned(3));
    what = before;
    EXPECT_TRUE(is_planned(3));
  };
  changes(parts[1].prefix, 22);
  changes(parts[1].tail_slots, 1);
  changes(parts[1].rows, 2);
  changes(masks[3 * cuda::kMaskWords], 2);
  changes(pages[2], 9);
  const std::uint32_t begin = 5;
  changes(parts[1].begins, &begin);
  std::swap(parts[0].rows, parts[2].rows);  // as many in all
  EXPECT_FALSE(is_planned(3));
}

// The plan matches the launch's request, on a processor with no memory beyond it. The launch is
// only recorded, because running it would take minutes.
TEST(AttentionTilesTest, HeadsOfPartialTilesFitBlockMemory) {
  constexpr std::size_t kBlockBytes = std::size_t{99} << 10;
  const cuda::Heads heads{.kv_heads = 32, .group = 1, .head_dim = 100};
  const std::vector<cuda::AttentionPart> parts{{.rows = 128,
                                                .prefix = 1920,
                                                .tail_slots = 0,
                                                .masks = nullptr,
                                                .pages = nullptr,
                                                .page_count = 0}};
  cuda::AttentionPlan plan{};
  std::vector<std::uint32_t> table(cuda::attention_table_words(parts.data(), parts.size()));
  ASSERT_EQ(cuda::plan_attention(parts.data(), parts.size(), heads, {kBlockBytes, true, 1u << 28},
                                 plan, table.data()),
            cudaSuccess);
  float* const untouched = nullptr;
  const cuda::Cache cache{
      .data = nullptr, .type = DType::f32, .stride = 3200, .pages = nullptr, .page_slots = 0};
  cuda_host::set_block_memory(kBlockBytes);
  ASSERT_EQ(cudaStreamBeginCapture(nullptr, cudaStreamCaptureModeThreadLocal), cudaSuccess);
  EXPECT_EQ(cuda::attention({.q = {untouched, 3200},
                             .keys = cache,
                             .values = cache,
                             .table = nullptr,
                             .plan = plan,
                             .heads = heads,
                             .y = {untouched, 3200},
                             .scratch = untouched,
                             .scratch_floats = cuda::attention_scratch_floats(plan, heads),
                             .scale = 0.1f,
                             .sinks = nullptr},
                            nullptr),
            cudaSuccess);
  cudaGraph_t graph{};
  ASSERT_EQ(cudaStreamEndCapture(nullptr, &graph), cudaSuccess);
  ASSERT_EQ(cudaGraphDestroy(graph), cudaSuccess);
  cuda_host::set_block_memory(cuda_host::kBlockMemoryBytesMax);
}

// Pretends to be compiled for a processor without matrix instructions.
class WithoutTiles {
 public:
  WithoutTiles() { cuda_host::set_ptx_version(75); }
  ~WithoutTiles() { cuda_host::set_ptx_version(90); }
  WithoutTiles(const WithoutTiles&) = delete;
  WithoutTiles& operator=(const WithoutTiles&) = delete;
};

TEST(AttentionWithoutTilesTest, MatchesReferenceAndRowsAreBitExact) {
  const WithoutTiles without;
  const auto backend = make_cuda_backend({});
  const auto reference = make_reference_backend();
  constexpr std::uint32_t kRows = 37;
  constexpr std::uint32_t kPrefix = 70;
  for (const HeadShape& heads :
       {HeadShape{8, 2, 128}, HeadShape{6, 2, 34}, HeadShape{62, 62, 8}, HeadShape{2, 1, 256}}) {
    const std::size_t cols = heads.query_cols();
    const Floats q = random_floats(1, kRows * cols);
    const Floats k = random_floats(2, (kPrefix + kRows) * std::size_t{heads.kv_cols()});
    const Floats v = random_floats(3, k.size());
    const auto attended = [&](Backend& on, DType type, std::uint32_t first, std::uint32_t rows,
                              std::uint32_t prefix, const std::vector<AncestorMask>& masks,
                              std::uint32_t window, const Floats& keys) {
      std::vector<std::uint32_t> positions(rows, prefix - 1);
      for (std::uint32_t r = 0; r < masks.size(); ++r) {
        for (std::uint32_t j = 0; j < rows; ++j) positions[r] += masks[r].test(j) ? 1 : 0;
      }
      const OwnedMatrix q_matrix = matrix_of(on, kRows, heads.query_cols(), q);
      const OwnedMatrix y(on, rows, heads.query_cols());
      const Cache stored_keys(on, type, heads.kv_cols(), keys);
      const Cache stored_values(on, type, heads.kv_cols(), v);
      on.attention({.q = q_matrix.all().row_range(first, rows),
                    .keys = stored_keys,
                    .values = stored_values,
                    .prefix = prefix,
                    .masks = masks,
                    .heads = heads,
                    .y = y.all(),
                    .scale = heads.score_scale(),
                    .window = window,
                    .positions = positions});
      return values_of(on, y.all());
    };
    const auto tree = random_tree(4, kRows);
    for (const DType type : kCacheTypes) {
      for (const std::uint32_t window : {0u, 33u}) {
        const std::string what =
            std::string(traits(type).name) + ", window " + std::to_string(window);
        const Floats y = attended(*backend, type, 0, kRows, kPrefix, tree, window, k);
        const Floats expected = attended(*reference, type, 0, kRows, kPrefix, tree, window, k);
        for (std::size_t i = 0; i < y.size(); ++i) {
          expect_near(y[i], double{expected[i]}, 4e-6, what);
        }
        const auto chain_masks = causal_masks(kRows);
        const Floats chain = attended(*backend, type, 0, kRows, kPrefix, chain_masks, window, k);
        for (const std::uint32_t r : {0u, 17u, kRows - 1}) {
          // Hidden slots have no effect.
          Floats keys = k;
          const std::uint32_t hidden = window != 0 ? kPrefix + r + 1 - window : 0;
          std::fill_n(keys.begin(), hidden * std::size_t{heads.kv_cols()}, NAN);
          EXPECT_TRUE(same_bytes(attended(*backend, type, r, 1, kPrefix + r + 1, {}, window, keys),
                                 std::span(chain).subspan(r * cols, cols)))
              << what << ", row " << r;
        }
      }
    }
  }
}

}  // namespace
}  // namespace edgedraft::testing
