#include "shared/model/atomic_file.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include "tests/support/temporary_directory.h"

namespace edgedraft {
namespace {

// Another user of the folder may plant a link to a file of a third.
TEST(AtomicFileTest, DoesNotFollowPlantedLink) {
  const test::TemporaryDirectory directory;
  const auto victim = directory.write("victim", "precious");
  const auto path = directory / "out.gguf";
  std::filesystem::create_symlink(victim, path.string() + ".partial-" + std::to_string(getpid()));
  {
    auto file = AtomicFile::create(path).value();
    ASSERT_TRUE(file.append(as_byte_view("model")));
    ASSERT_TRUE(file.commit());
  }
  EXPECT_EQ(test::file_text(victim), "precious");
  EXPECT_EQ(test::file_text(path), "model");
  EXPECT_FALSE(std::filesystem::is_symlink(path));
}

TEST(AtomicFileTest, ReplacesLeftoverPartialFile) {
  const test::TemporaryDirectory directory;
  const auto path = directory / "out.gguf";
  directory.write("out.gguf.partial-" + std::to_string(getpid()), "half of an older one, longer");
  auto file = AtomicFile::create(path).value();
  ASSERT_TRUE(file.append(as_byte_view("model")));
  ASSERT_TRUE(file.commit());
  EXPECT_EQ(test::file_text(path), "model");
  EXPECT_EQ(directory.file_count(), 1u);
}

// A signal or the out-of-memory killer may end a conversion at any point.
TEST(AtomicFileTest, LeavesNoFileIfInterrupted) {
  const test::TemporaryDirectory directory;
  const int nameless = open(directory.path().c_str(), O_WRONLY | O_TMPFILE | O_CLOEXEC, 0600);
  if (nameless < 0) GTEST_SKIP() << "the file system does not support O_TMPFILE";
  close(nameless);
  const auto path = directory / "out.gguf";
  auto file = AtomicFile::create(path).value();
  ASSERT_TRUE(file.append(as_byte_view("half")));
  EXPECT_EQ(directory.file_count(), 0u) << "no file before commit";
  ASSERT_TRUE(file.append(as_byte_view(" and half")));
  ASSERT_TRUE(file.commit());
  EXPECT_EQ(test::file_text(path), "half and half");
  EXPECT_EQ(directory.file_count(), 1u);
}

}  // namespace
}  // namespace edgedraft
