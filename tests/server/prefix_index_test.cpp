#include "server/sessions/prefix_index.h"
#include "tests/support/reference_backend.h"

#include <gtest/gtest.h>

namespace edgedraft::server {
namespace {

using Tokens = std::vector<std::uint32_t>;

class PrefixIndexTest : public ::testing::Test {
 protected:
  using Pages = std::vector<std::uint32_t>;

  // Enough pages for the tokens, held by the test.
  Pages take(std::size_t count) {
    Pages pages;
    while (pages.size() < count) pages.push_back(pool_.take());
    return pages;
  }
  void give_back(const Pages& pages) {
    for (const std::uint32_t page : pages) pool_.give_back(page);
  }

  Pages found(const std::string& identity, const Tokens& tokens) {
    return index_.find(identity, tokens).pages;
  }

  std::unique_ptr<Backend> backend_ = make_reference_backend();
  KvPool pool_{*backend_, {.kv_cols = {1}, .page_count = 16, .page_slots = 2}};
  PrefixIndex index_{pool_};
};

TEST_F(PrefixIndexTest, FindsLongestPrefixInWholePages) {
  const Pages pages = take(3);
  index_.add("a", Tokens{1, 2, 3, 4, 5, 6}, pages);
  EXPECT_EQ(found("a", Tokens{1, 2, 3, 4, 5, 6, 7}), pages);
  EXPECT_EQ(found("a", Tokens{1, 2, 3, 4, 5}), (Pages{pages[0], pages[1]}));
  EXPECT_EQ(found("a", Tokens{1, 2, 3, 9, 5, 6}), Pages{pages[0]});
  EXPECT_EQ(found("a", Tokens{2, 1, 3, 4, 5, 6}), Pages{});
  EXPECT_EQ(found("a", Tokens{1}), Pages{});
  // Tokens on a later page, at another position, are a different page.
  EXPECT_EQ(found("a", Tokens{3, 4}), Pages{});
}

TEST_F(PrefixIndexTest, FindsOnlyPagesOfSameIdentity) {
  const Pages pages = take(1);
  index_.add("a", Tokens{1, 2}, pages);
  EXPECT_EQ(found("b", Tokens{1, 2}), Pages{});
  const Pages others = take(1);
  index_.add("b", Tokens{1, 2}, others);
  EXPECT_EQ(found("a", Tokens{1, 2}), pages);
  EXPECT_EQ(found("b", Tokens{1, 2}), others);
}

TEST_F(PrefixIndexTest, RetainsPagesOfDepartedSessionsUntilReclaimed) {
  const Pages pages = take(2);
  index_.add("a", Tokens{1, 2, 3, 4}, pages);
  EXPECT_FALSE(index_.reclaim()) << "the pages are in use";
  give_back(pages);
  EXPECT_EQ(pool_.used_count(), 2u);
  EXPECT_EQ(found("a", Tokens{1, 2, 3, 4}), pages);
  // Starting from the end: the first page is useful without the second, but not vice versa.
  ASSERT_TRUE(index_.reclaim());
  EXPECT_EQ(found("a", Tokens{1, 2, 3, 4}), Pages{pages[0]});
  ASSERT_TRUE(index_.reclaim());
  EXPECT_FALSE(index_.reclaim());
  EXPECT_EQ(pool_.used_count(), 0u);
}

TEST_F(PrefixIndexTest, ReclaimsLeastRecentlyFoundPage) {
  const Pages first = take(1);
  const Pages second = take(1);
  const Pages third = take(1);
  index_.add("a", Tokens{1, 1}, first);
  index_.add("a", Tokens{2, 2}, second);
  index_.add("a", Tokens{3, 3}, third);
  for (const Pages& pages : {first, second, third}) give_back(pages);
  EXPECT_EQ(found("a", Tokens{1, 1}), first);
  ASSERT_TRUE(index_.reclaim());
  EXPECT_EQ(found("a", Tokens{2, 2}), Pages{});
  ASSERT_TRUE(index_.reclaim());
  EXPECT_EQ(found("a", Tokens{3, 3}), Pages{});
  EXPECT_EQ(found("a", Tokens{1, 1}), first);
}

// Two sessions compute the same tokens at once: the second keeps its own pages, but what follows is
// shared.
TEST_F(PrefixIndexTest, StoresEachPrefixOnce) {
  const Pages pages = take(1);
  const Pages again = take(2);
  index_.add("a", Tokens{1, 2}, pages);
  index_.add("a", Tokens{1, 2, 3, 4}, again);
  EXPECT_EQ(found("a", Tokens{1, 2, 3, 4}), (Pages{pages[0], again[1]}));
  give_back(pages);
  EXPECT_FALSE(index_.reclaim()) << "the next page is in use";
  give_back(again);
  EXPECT_EQ(pool_.used_count(), 2u);
  while (index_.reclaim()) {
  }
  EXPECT_EQ(pool_.used_count(), 0u);
}

TEST_F(PrefixIndexTest, ReturnsAllPagesOnDestruction) {
  {
    PrefixIndex index(pool_);
    const Pages pages = take(3);
    index.add("a", Tokens{1, 2, 3, 4, 5, 6}, pages);
    give_back(pages);
    EXPECT_EQ(pool_.used_count(), 3u);
  }
  EXPECT_EQ(pool_.used_count(), 0u);
}

// Layers with windows have a pool of their own, and see the last three positions.
class WindowedPrefixIndexTest : public ::testing::Test {
 protected:
  using Pages = std::vector<std::uint32_t>;

  static Pages take(KvPool& pool, std::size_t count) {
    Pages pages;
    while (pages.size() < count) pages.push_back(pool.take());
    return pages;
  }
  static void give_back(KvPool& pool, const Pages& pages) {
    for (const std::uint32_t page : pages) pool.give_back(page);
  }

  std::unique_ptr<Backend> backend_ = make_reference_backend();
  KvPool pool_{*backend_, {.kv_cols = {1}, .page_count = 16, .page_slots = 2}};
  KvPool windowed_{*backend_, {.kv_cols = {1}, .page_count = 4, .page_slots = 2}};
  PrefixIndex index_{pool_, {.windowed = &windowed_, .window = 3}};
};

TEST_F(WindowedPrefixIndexTest, PrefixEndsWhereItsLastWindowIsKnown) {
  const Pages pages = take(pool_, 4);
  const Pages windows = take(windowed_, 2);
  const Tokens tokens{1, 2, 3, 4, 5, 6, 7, 8};
  // A sequence that has returned its first two pages of windows.
  index_.add("a", tokens, pages, windows);
  const KnownPrefix all = index_.find("a", tokens);
  EXPECT_EQ(all.pages, pages);
  EXPECT_EQ(all.window_pages, windows);
  // The next row of the first three pages would see positions 4 and 5, of the first two also 2.
  EXPECT_EQ(index_.find("a", std::span(tokens).first(6)).pages.size(), 3u);
  EXPECT_EQ(index_.find("a", std::span(tokens).first(4)).pages.size(), 0u);
  // Another sequence still has them.
  const Pages again = take(pool_, 2);
  const Pages windows_again = take(windowed_, 2);
  index_.add("a", std::span(tokens).first(4), again, windows_again);
  EXPECT_EQ(index_.find("a", std::span(tokens).first(4)).pages, (Pages{pages[0], pages[1]}));
  EXPECT_EQ(index_.find("a", std::span(tokens).first(4)).window_pages, windows_again);
  for (const auto& [pool, held] :
       {std::pair(&pool_, pages), std::pair(&pool_, again), std::pair(&windowed_, windows),
        std::pair(&windowed_, windows_again)}) {
    give_back(*pool, held);
  }
}

TEST_F(WindowedPrefixIndexTest, GivesPagesOfWindowsToSequencesThatNeedThem) {
  const Pages pages = take(pool_, 4);
  const Pages windows = take(windowed_, 4);
  const Tokens tokens{1, 2, 3, 4, 5, 6, 7, 8};
  index_.add("a", tokens, pages, windows);
  give_back(pool_, pages);
  give_back(windowed_, {windows[0], windows[1]});
  EXPECT_EQ(windowed_.free_count(), 0u);
  // Oldest first: the window before the end stays known, but prefixes of the text are lost.
  EXPECT_EQ(windowed_.take(), windows[0]);
  EXPECT_EQ(windowed_.take(), windows[1]);
  EXPECT_EQ(index_.find("a", tokens).pages, pages);
  EXPECT_EQ(index_.find("a", std::span(tokens).first(4)).pages.size(), 0u);
  give_back(windowed_, windows);
  while (index_.reclaim()) {
  }
  EXPECT_EQ(pool_.used_count(), 0u);
  EXPECT_EQ(windowed_.used_count(), 0u);
}

}  // namespace
}  // namespace edgedraft::server
