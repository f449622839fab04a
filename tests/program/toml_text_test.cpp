#include "shared/program/toml_reader.h"

#include <gtest/gtest.h>

namespace edgedraft {
namespace {

TEST(TomlTextTest, AllowsNonAsciiInQuotesAndComments) {
  const auto table = parse_toml(
                         "\xEF\xBB\xBF# für alle\n"
                         "a = 'ä \" #'  # ö\n"
                         "b = \"\\\" ü\"\n"
                         "c = \"\"\"é\n\"é\"\"\"\"\n"
                         "d = [ 'ß',\n  { e = 'ñ', 'f' = [\"ø\"] } ]\n"
                         "'ключ' = '''\n\"б'''\n",
                         "file")
                         .value();
  EXPECT_EQ(table["a"].value<std::string>(), "ä \" #");
  EXPECT_EQ(table["b"].value<std::string>(), "\" ü");
  EXPECT_EQ(table["c"].value<std::string>(), "é\n\"é\"");
  EXPECT_EQ(table["d"][1]["f"][0].value<std::string>(), "ø");
  EXPECT_EQ(table["ключ"].value<std::string>(), "\"б");
}

TEST(TomlTextTest, RejectsNonAsciiElsewhereWithLine) {
  for (const char* text : {"a = 1\nключ = 2\n", "a = 1\nb =\xD0\xB1\n", "a = '''x'''''\n б = 1\n",
                           "a = \"\\\\\"\nб = 1\n", "a = 1\n\xFF", "a = 1\nb = 4\"é",
                           "a = 1\nb = 4=\"é", "a = 1\nb = [4[\"é"}) {
    const auto table = parse_toml(text, "file");
    ASSERT_FALSE(table) << text;
    EXPECT_TRUE(table.error().message.starts_with("file, line 2: letters outside ASCII"))
        << text << table.error().message;
  }
}

}  // namespace
}  // namespace edgedraft
