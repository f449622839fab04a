#include "netsim/lab/cycle_log.h"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <signal.h>
#include <sys/stat.h>
#include <unistd.h>

#include <fstream>
#include <string>

#include "tests/support/expect.h"
#include "tests/support/temporary_directory.h"

namespace edgedraft::lab {
namespace {

class CycleLogTest : public ::testing::Test {
 protected:
  static Result<void> written_to(const std::filesystem::path& file, const auto& before_records) {
    const auto log = CycleLog::open(file, CycleLogHead{});
    if (!log) return log.error();
    before_records();
    for (int i = 0; i < 3; ++i) (*log)->write({.kind = client::CycleRecord::Kind::offline});
    return (*log)->close(2);
  }

  const test::TemporaryDirectory scratch_;
};

TEST_F(CycleLogTest, WritesOneLinePerRecord) {
  const auto file = scratch_ / "cycles.jsonl";
  ASSERT_TRUE(written_to(file, [] {}));
  std::ifstream in(file);
  int lines = 0;
  std::string last;
  for (std::string line; std::getline(in, line); last = line) ++lines;
  EXPECT_EQ(lines, 5) << "three records, the head and the end";
  EXPECT_EQ(last, "{\"kind\":\"end\",\"late_drafts\":2}");
}

TEST_F(CycleLogTest, NamesFileThatCannotBeWritten) {
  const auto pipe = scratch_ / "pipe";
  ASSERT_EQ(mkfifo(pipe.c_str(), 0600), 0);
  const int reader = open(pipe.c_str(), O_RDONLY | O_NONBLOCK);
  ASSERT_GE(reader, 0);
  const auto handler = signal(SIGPIPE, SIG_IGN);
  const auto written = written_to(pipe, [reader] { close(reader); });
  signal(SIGPIPE, handler);
  EXPECT_TRUE(fails_with(written, Errc::io, pipe.string()));
}

}  // namespace
}  // namespace edgedraft::lab
