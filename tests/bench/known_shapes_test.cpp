#include "tests/bench/known_shapes.h"

#include <gtest/gtest.h>

#include "tests/support/expect.h"

namespace edgedraft::bench {
namespace {

// Documented commands use either name.
TEST(KnownShapesTest, FindsShapesByEitherName) {
  for (const char* name : {"tinyllama", "llama-1.1b"}) {
    const auto shape = find_known_shape(name).value();
    EXPECT_EQ(shape.layers, 22u);
    EXPECT_EQ(shape.dim, 2048u);
  }
}

TEST(KnownShapesTest, UnknownNameListsKnownShapes) {
  for (const char* name : {"", "llama"}) {
    EXPECT_TRUE(fails_with(find_known_shape(name), Errc::usage, "tinyllama, llama3-8b, ")) << name;
  }
}

TEST(KnownShapesTest, HeadsFillRow) {
  for (const char* name : {"tinyllama", "llama3-8b", "llama3-8b-draft", "qwen2-0.5b", "demo"}) {
    const auto shape = find_known_shape(name).value();
    EXPECT_EQ(shape.heads.query_cols(), shape.dim) << name;
  }
}

}  // namespace
}  // namespace edgedraft::bench
