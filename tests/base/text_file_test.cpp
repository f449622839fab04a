#include "shared/base/text_file.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <string>
#include <utility>

#include "tests/support/expect.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft {
namespace {

TEST(TextFileTest, ReadsFilesUpToLimit) {
  const test::TemporaryDirectory scratch;
  const std::string text = std::string(100'000, 'x') + std::string("\0\n", 2);
  const auto file = scratch.write("text", text);
  EXPECT_EQ(read_text(file, text.size()).value(), text);
  EXPECT_EQ(read_text(scratch.write("empty", ""), 0).value(), "");
  EXPECT_TRUE(fails_with(read_text(file, text.size() - 1), Errc::usage));
}

TEST(TextFileTest, ReportsReasonForUnreadableFile) {
  const test::TemporaryDirectory scratch;
  std::filesystem::create_symlink("loop", scratch / "loop");
  const std::pair<std::filesystem::path, const char*> cases[] = {
      {scratch / "none", "No such file or directory"},
      {scratch.path(), "is a folder"},
      {scratch / "loop", "Too many levels of symbolic links"},
      {scratch / std::string(300, 'n'), "File name too long"}};
  for (const auto& [file, reason] : cases) {
    const auto text = read_text(file, 1);
    ASSERT_TRUE(fails_with(text, Errc::io)) << file;
    EXPECT_EQ(text.error().message, file.string() + ": " + reason);
  }
}

// "-" means standard input only for names that the user gives.
TEST(TextFileTest, TreatsDashAsFileName) {
  const auto text = read_text_file("-", 1);
  ASSERT_FALSE(text);
  EXPECT_EQ(text.error().message, "-: No such file or directory");
}

}  // namespace
}  // namespace edgedraft
