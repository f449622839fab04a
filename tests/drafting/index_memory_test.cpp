// Building an index stays within its memory limit for any corpus length, and a conversation's table
// takes no more than it reports. All allocations of the process are counted.
#include <gtest/gtest.h>

#include <atomic>
#include <cstdlib>
#include <new>
#include <vector>

#include "shared/base/random.h"
#include "shared/drafting/index/index_builder.h"
#include "shared/drafting/ngram/ngram_table.h"
#include "tests/support/temporary_directory.h"

namespace {

constexpr std::size_t kSizeBytes = 16;  // space before each block for its size

std::atomic<std::size_t> live_bytes = 0;
std::atomic<std::size_t> most_bytes = 0;
std::atomic<std::size_t> live_blocks = 0;

}  // namespace

void* operator new(std::size_t bytes) {
  void* const block = std::malloc(bytes + kSizeBytes);
  if (block == nullptr) throw std::bad_alloc();
  *static_cast<std::size_t*>(block) = bytes;
  const std::size_t live = live_bytes += bytes;
  if (live > most_bytes) most_bytes = live;
  ++live_blocks;
  return static_cast<char*>(block) + kSizeBytes;
}

void operator delete(void* start) noexcept {
  if (start == nullptr) return;
  void* const block = static_cast<char*>(start) - kSizeBytes;
  live_bytes -= *static_cast<std::size_t*>(block);
  --live_blocks;
  std::free(block);
}

void operator delete(void* start, std::size_t) noexcept {
  operator delete(start);
}

namespace edgedraft {
namespace {

constexpr std::uint64_t kMemoryBytes = 256 * 1024;
constexpr std::uint64_t kBesideBytes = 1u << 20;

std::size_t bytes_taken_for(std::uint64_t token_count) {
  test::TemporaryDirectory directory;
  auto builder = IndexBuilder::create({.output = directory / "corpus.index",
                                       .vocabulary_count = 5000,
                                       .memory_bytes = kMemoryBytes});
  EXPECT_TRUE(builder);
  Random random(1);
  std::vector<std::uint32_t> document(1000);
  const std::size_t before = live_bytes;
  most_bytes = before;
  for (std::uint64_t done = 0; done < token_count; done += document.size()) {
    for (auto& token : document) {
      // Like words: a few are frequent.
      token = static_cast<std::uint32_t>(5000.0 * random.uniform() * random.uniform() *
                                         random.uniform());
    }
    EXPECT_TRUE(builder->add(document));
  }
  EXPECT_TRUE(builder->finish([](std::uint64_t) {}));
  return most_bytes - before;
}

TEST(IndexMemoryTest, MemoryIsBoundedForLongCorpora) {
  const std::size_t little = bytes_taken_for(20'000);
  const std::size_t much = bytes_taken_for(600'000);  // 16 bytes each would be 9.6 MB
  EXPECT_GE(little, kMemoryBytes / 2) << "the bound is reached";
  EXPECT_LE(much, kMemoryBytes + kBesideBytes);
  EXPECT_LE(much, little + kBesideBytes / 4);
}

// Largest overhead per block in the C library.
constexpr std::size_t kBlockOverhead = 24;

TEST(NgramMemoryTest, TableStaysWithinBytesPerToken) {
  for (const std::uint32_t vocabulary : {3u, 1000u, 1u << 30}) {
    Random random(2);
    const std::size_t before = live_bytes;
    const std::size_t blocks_before = live_blocks;
    most_bytes = before;
    NgramTable table;
    for (std::uint32_t count = 1; count <= 5000; ++count) {
      const auto token = static_cast<std::uint32_t>(random.below(vocabulary));
      table.append(std::span(&token, 1));
      const std::size_t taken =
          live_bytes - before + (live_blocks - blocks_before) * kBlockOverhead;
      if (count >= 100) {
        ASSERT_LE(taken, count * NgramTable::kTokenBytesMax) << count << " tokens";
      }
    }
    EXPECT_LE(most_bytes - before, 5000 * NgramTable::kTokenBytesMax);
  }
}

}  // namespace
}  // namespace edgedraft
