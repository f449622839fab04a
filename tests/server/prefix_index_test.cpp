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

}  // namespace
}  // namespace edgedraft::server
