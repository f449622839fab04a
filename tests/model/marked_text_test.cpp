#include "shared/model/marked_text.h"

#include <gtest/gtest.h>

namespace edgedraft {
namespace {

using Spans = std::vector<MarkedText::Span>;

MarkedText sample() {
  MarkedText text = MarkedText::own("ab");
  text.append(MarkedText::foreign("cde"));
  text.append(MarkedText::own("f"));
  return text;
}

TEST(MarkedTextTest, TracksForeignSpans) {
  EXPECT_EQ(sample().text(), "abcdef");
  EXPECT_EQ(sample().spans(), (Spans{{2, 5}}));
  EXPECT_FALSE(MarkedText::own("x").has_foreign());
  EXPECT_EQ(MarkedText::foreign("").spans(), Spans{});
}

TEST(MarkedTextTest, ReportsWhetherPartIsForeign) {
  EXPECT_FALSE(sample().is_foreign(0, 2));
  EXPECT_TRUE(sample().is_foreign(1, 3));
  EXPECT_TRUE(sample().is_foreign(3, 4));
  EXPECT_TRUE(sample().is_foreign(4, 6));
  EXPECT_FALSE(sample().is_foreign(5, 6));
}

TEST(MarkedTextTest, SlicesKeepMarks) {
  EXPECT_EQ(sample().slice(1, 4).spans(), (Spans{{1, 3}}));
  EXPECT_EQ(sample().slice(3, 6).spans(), (Spans{{0, 2}}));
  EXPECT_EQ(sample().slice(5, 6).spans(), Spans{});
  EXPECT_EQ(sample().slice(2, 2).text(), "");
}

TEST(MarkedTextTest, MergesAdjacentSpans) {
  MarkedText text = MarkedText::foreign("a");
  text.append(MarkedText::foreign("b"));
  EXPECT_EQ(text.spans(), (Spans{{0, 2}}));
}

}  // namespace
}  // namespace edgedraft
