#include "shared/base/json_shape.h"

#include <gtest/gtest.h>

#include <string>

namespace edgedraft {
namespace {

TEST(JsonShapeTest, LimitsDepthIndependentOfMembers) {
  const std::string at_limit(kJsonDepthMax, '[');
  EXPECT_TRUE(has_readable_depth(at_limit));
  EXPECT_FALSE(has_readable_depth(at_limit + '['));
  EXPECT_TRUE(has_readable_depth('"' + at_limit + "[\""));

  std::string many = "{";
  for (std::size_t i = 0; i <= kJsonMembersMax; ++i) many += '"' + std::to_string(i) + "\":0,";
  EXPECT_TRUE(has_readable_depth(many));
  EXPECT_FALSE(has_readable_shape(many));
}

TEST(JsonShapeTest, CountsBytesOfStringsAndEscapesAsOne) {
  EXPECT_EQ(json_text_bytes(R"({"ab":"c\"d\u00e9","e":[1,2,"\\"]})"), 2u + 4 + 1 + 1);
  EXPECT_EQ(json_text_bytes(R"("cut\)"), 4u);
  EXPECT_EQ(json_text_bytes("[1,2]"), 0u);
}

TEST(JsonShapeTest, LimitsArrayElements) {
  const auto of = [](const std::string& element, std::size_t count) {
    std::string json = "[";
    for (std::size_t i = 0; i < count; ++i) json += (i > 0 ? ", " : "") + element;
    return json + ']';
  };
  EXPECT_TRUE(has_readable_shape(of("\"a,b\"", kJsonElementsAllMax)));
  EXPECT_FALSE(has_readable_shape(of("\"a\"", kJsonElementsAllMax + 1)));
  EXPECT_FALSE(has_readable_shape("[" + of("{}", kJsonElementsAllMax / 2 + 1) + ',' +
                                  of("[]", kJsonElementsAllMax / 2 + 1) + ']'));
  // Arrays of numbers may be longer: prompts of token ids.
  EXPECT_TRUE(has_readable_shape(of("128000", 4 * kJsonElementsAllMax)));
  EXPECT_FALSE(has_readable_shape(of("0", 4 * kJsonElementsAllMax + 1)));
  EXPECT_TRUE(has_readable_depth(of("\"a\"", kJsonElementsAllMax + 1)));
}

}  // namespace
}  // namespace edgedraft
