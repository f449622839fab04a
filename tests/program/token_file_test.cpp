#include "shared/program/token_file.h"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <filesystem>
#include <optional>

#include "tests/support/expect.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft {
namespace {

constexpr std::size_t kBytesMax = 64;

class TokenFileTest : public ::testing::Test {
 protected:
  Result<std::string> read(std::string_view text, mode_t mode = 0600) {
    const auto file = directory_.write("token", text);
    ::chmod(file.c_str(), mode);
    return read_token_file(file, kBytesMax);
  }

  void expect_refused(const Result<std::string>& read, Errc code, std::string_view says) {
    ASSERT_TRUE(fails_with(read, code, says)) << "accepted: '" << *read << "'";
    EXPECT_TRUE(contains(read.error().message, "token"));
  }

  test::TemporaryDirectory directory_;
};

TEST_F(TokenFileTest, TrimsLineEndingAndBlanks) {
  for (const std::string_view text : {"secret", "secret\n", "secret\r\n", "  secret\t\n",
                                      "secret\n\n", "secret\r\n\r\n", "secret\n \t\n"}) {
    EXPECT_EQ(read(text).value(), "secret") << '\'' << text << '\'';
  }
  EXPECT_EQ(read("two words\n").value(), "two words");
  EXPECT_EQ(read(std::string(kBytesMax, 'x') + '\n').value(), std::string(kBytesMax, 'x'));
}

TEST_F(TokenFileTest, RejectsEmptyToken) {
  for (const std::string_view text :
       {"", "\n", "\r\n", " ", " \t\r\n", "\nsecret\n", "\r\nsecret", " \nsecret"}) {
    expect_refused(read(text), Errc::usage, "first line is empty");
  }
}

TEST_F(TokenFileTest, RejectsSeveralLines) {
  expect_refused(read("secret\nmore\n"), Errc::usage, "more than one line");
  expect_refused(read("secret\r\n\nmore"), Errc::usage, "more than one line");
}

TEST_F(TokenFileTest, RejectsTooLongToken) {
  expect_refused(read(std::string(kBytesMax + 1, 'x') + '\n'), Errc::usage, "64 bytes");
  expect_refused(read(std::string(1u << 20, 'x')), Errc::usage, "64 bytes");
  const auto endless = read_token_file("/dev/zero", kBytesMax);
  ASSERT_FALSE(endless);
  EXPECT_TRUE(contains(endless.error().message, "64 bytes"));
}

TEST_F(TokenFileTest, RejectsNonPrintableAndNonAsciiCharacters) {
  for (const std::string_view text :
       {std::string_view("\xEF\xBB\xBFsecret\n"), std::string_view("s\0e\0c\0", 6),
        std::string_view("sec\tret"), std::string_view("sec\x1B[2Jret"),
        std::string_view("sec\rret"), std::string_view("s\xC3\xA9same")}) {
    expect_refused(read(text), Errc::usage, "printable ASCII");
  }
}

TEST_F(TokenFileTest, NamesUnreadableFile) {
  expect_refused(read_token_file(directory_ / "no-token", kBytesMax), Errc::io, "no-token");
  std::filesystem::create_directory(directory_ / "token-folder");
  expect_refused(read_token_file(directory_ / "token-folder", kBytesMax), Errc::io, "directory");
  if (::geteuid() == 0) GTEST_SKIP() << "root can read every file";
  expect_refused(read("secret\n", 0), Errc::io, "ermission");
}

TEST_F(TokenFileTest, RejectsWorldAccessibleFile) {
  for (const mode_t mode : {0644u, 0602u, 0604u, 0666u}) {
    expect_refused(read("secret\n", mode), Errc::usage, "chmod o=");
  }
  for (const mode_t mode : {0600u, 0400u, 0640u, 0660u}) {
    EXPECT_EQ(read("secret\n", mode).value(), "secret");
  }
}

// As a shell creates for `--token-file <(pass show edgedraft)`.
TEST_F(TokenFileTest, ReadsPipe) {
  int ends[2];
  ASSERT_EQ(::pipe(ends), 0);
  ASSERT_EQ(::write(ends[1], "secret\n", 7), 7);
  ::close(ends[1]);
  EXPECT_EQ(read_token_file("/dev/fd/" + std::to_string(ends[0]), kBytesMax).value(), "secret");
  ::close(ends[0]);
}

TEST_F(TokenFileTest, RereadsCurrentContent) {
  ASSERT_EQ(read("old\n").value(), "old");
  const auto file = directory_.write_secret("token", "new\n");
  EXPECT_EQ(reread_token_file(file, kBytesMax).value(), "new");
  std::filesystem::remove(file);
  EXPECT_TRUE(fails_with(reread_token_file(file, kBytesMax), Errc::io));
  std::filesystem::create_directory(file);
  EXPECT_FALSE(reread_token_file(file, kBytesMax)) << "rereading a folder fails";
}

// Reading a pipe without a writer would block.
TEST_F(TokenFileTest, DoesNotRereadPipesAndDevices) {
  const auto pipe = directory_ / "token";
  ASSERT_EQ(::mkfifo(pipe.c_str(), 0600), 0);
  for (const std::filesystem::path& file :
       {pipe, std::filesystem::path("-"), std::filesystem::path("/dev/zero")}) {
    const auto again = reread_token_file(file, kBytesMax);
    ASSERT_TRUE(again) << again.error().message;
    EXPECT_EQ(*again, std::nullopt) << file;
  }
}

}  // namespace
}  // namespace edgedraft
